"""Records what Apache Kafka says about settings: `python -m tests.golden.record_configs`.

Starts one (in ZooKeeper mode) in a folder of its own and writes configs_3_9_2.json beside this
file.
"""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from odradek.runtime.java_properties import parse_properties
from tests.golden.config_scenarios import BROKER, DESCRIPTIONS, SET, TOPIC, scenarios
from tests.support.apache import apache_node
from tests.support.maven import broker_libraries

FOLDER = Path(__file__).parent
OVERRIDES = {
    "num.network.threads": "3",
    "num.io.threads": "8",
    "log.cleaner.dedupe.buffer.size": "134217728",
    "log.retention.hours": "24",
    "log.roll.ms": "86400000",
    "min.insync.replicas": "2",
    "ssl.key.password": "secret-word",
    "listener.name.plaintext.ssl.key.password": "other-word",
    "listener.name.plaintext.max.connections": "50",
    "log.initial.task.delay.ms": "20000",
    "no.such.setting": "7",
}
NOT_READY = (38, 41)
"""INVALID_REPLICATION_FACTOR and NOT_CONTROLLER: a moment after the start."""
DYNAMIC_BROKER_CONFIG, DYNAMIC_DEFAULT_BROKER_CONFIG = 2, 3
PATIENCE_S = 30.0
PUT_BACK = {
    "listeners": "PLAINTEXT://127.0.0.1:9092",
    "log.dirs": "/var/lib/kafka-logs",
    "zookeeper.connect": "127.0.0.1:2181/kafka",
}
"""Addresses and folders of the day of recording are written as these."""
DYNAMIC_DEFAULT = {
    "log.retention.ms": "7200000",
    "log.segment.bytes": "1000000",
    "log.flush.interval.ms": "5000",
    "num.io.threads": "9",
    "no.such.dynamic": "5",
    "log.cleanup.policy": "compact",
    "max.connections": "1000",
    "leader.replication.throttled.rate": "77",
}
DYNAMIC_BROKER = {
    "log.segment.bytes": "2000000",
    "compression.type": "zstd",
    "listener.name.plaintext.max.connections": "60",
    "log.roll.jitter.ms": "5",
}
TOPICS: dict[str, dict[str, str]] = {
    "t": {},
    "u": {"retention.ms": "1000", "cleanup.policy": "compact, delete"},
}


def text(value: str | None) -> bytes:
    """A nullable string."""
    if value is None:
        return struct.pack(">h", -1)
    return struct.pack(">h", len(value.encode())) + value.encode()


def array(items: Iterable[bytes]) -> bytes:
    """A counted sequence."""
    items = list(items)
    return struct.pack(">i", len(items)) + b"".join(items)


class Reader:
    """Fields of a response, one after another."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(">" + form, self.data, self.position)
        self.position += struct.calcsize(form)
        return int(value)

    def text(self) -> str | None:
        size = self.number("h")
        if size < 0:
            return None
        self.position += size
        return self.data[self.position - size : self.position].decode()


class Client:
    """One connection; requests of versions before the flexible ones."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.connection = socket.create_connection((host, int(port)), timeout=30)

    def ask(self, api_key: int, version: int, body: bytes) -> Reader:
        frame = struct.pack(">hhi", api_key, version, 1) + text("recorder") + body
        self.connection.sendall(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", self.receive(4))
        reader = Reader(self.receive(size))
        reader.number("i")
        return reader

    def receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.connection.recv(size - len(data))
            assert part, "the broker closed the connection"
            data += part
        return data

    def create_topic(self, name: str, configs: dict[str, str]) -> None:
        """Asked again until the broker has become the controller."""
        entries = array(text(key) + text(value) for key, value in configs.items())
        topic = text(name) + struct.pack(">ih", 1, 1) + array([]) + entries
        code = NOT_READY[0]
        deadline_s = time.monotonic() + PATIENCE_S
        while code in NOT_READY and time.monotonic() < deadline_s:
            reader = self.ask(19, 4, array([topic]) + struct.pack(">ib", 10_000, 0))
            reader.number("i")
            assert reader.number("i") == 1
            reader.text()
            code = reader.number("h")
        assert code == 0, f"the topic {name} could not be created: error {code}"

    def change(self, kind: str, resources: Any, *, validate_only: bool = True) -> list[Any]:
        """Responses as (type, name, error code, message)."""
        parts = []
        for resource_type, name, settings in resources:
            if kind == "change":
                entries = array(
                    text(key) + struct.pack(">b", operation) + text(value)
                    for key, operation, value in settings
                )
            else:
                entries = array(text(key) + text(value) for key, value in settings)
            parts.append(struct.pack(">b", resource_type) + text(name) + entries)
        api_key, version = (44, 0) if kind == "change" else (33, 1)
        body = array(parts) + struct.pack(">b", validate_only)
        reader = self.ask(api_key, version, body)
        reader.number("i")
        responses = []
        for _ in range(reader.number("i")):
            code, message = reader.number("h"), reader.text()
            responses.append([reader.number("b"), reader.text(), code, message])
        return responses

    def describe(self, resource_type: int, name: str) -> dict[str, Any]:
        resource = struct.pack(">b", resource_type) + text(name) + struct.pack(">i", -1)
        reader = self.ask(32, 3, array([resource]) + struct.pack(">bb", 1, 0))
        reader.number("i")
        assert reader.number("i") == 1
        code, message = reader.number("h"), reader.text()
        reader.number("b")
        reader.text()
        entries = {}
        for _ in range(reader.number("i")):
            key, value = reader.text(), reader.text()
            read_only, source, sensitive = (reader.number("b") for _ in range(3))
            synonyms = [
                [reader.text(), reader.text(), reader.number("b")]
                for _ in range(reader.number("i"))
            ]
            config_type = reader.number("b")
            reader.text()
            entries[str(key)] = {
                "value": value,
                "type": config_type,
                "source": source,
                "read_only": bool(read_only),
                "sensitive": bool(sensitive),
                "synonyms": synonyms,
            }
        return {"code": code, "message": message, "entries": dict(sorted(entries.items()))}

    def set_all(self, name: str, settings: dict[str, str]) -> None:
        """Set all of them, and wait until the broker has heard of it from ZooKeeper."""
        changes = [(key, SET, value) for key, value in settings.items()]
        (response,) = self.change("change", [(BROKER, name, changes)], validate_only=False)
        assert response[2] == 0, response
        source = DYNAMIC_BROKER_CONFIG if name else DYNAMIC_DEFAULT_BROKER_CONFIG
        deadline_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline_s:
            entries = self.describe(BROKER, "0")["entries"]
            keys = {
                synonym[0]
                for entry in entries.values()
                for synonym in entry["synonyms"]
                if synonym[2] == source
            }
            if settings.keys() <= keys:
                return
        raise AssertionError("the broker has not heard of the change")


def record(client: Client) -> dict[str, Any]:
    """Everything, in the order in which it was asked."""
    for name, configs in TOPICS.items():
        client.create_topic(name, configs)
    resources = {"broker": (BROKER, "0"), "default": (BROKER, "")}
    resources |= {f"topic {name}": (TOPIC, name) for name in TOPICS}
    described = {label: client.describe(*resource) for label, resource in resources.items()}
    responses = [client.change(kind, request) for kind, request in scenarios()]
    failures = [client.describe(*resource) for resource in DESCRIPTIONS]
    client.set_all("", DYNAMIC_DEFAULT)
    client.set_all("0", DYNAMIC_BROKER)
    changed = {label: client.describe(*resource) for label, resource in resources.items()}
    return {
        "topics": TOPICS,
        "described": described,
        "dynamic_default": DYNAMIC_DEFAULT,
        "dynamic_broker": DYNAMIC_BROKER,
        "described_after_change": changed,
        "failed_descriptions": failures,
        "responses": responses,
    }


def definitions() -> Any:
    """The tables behind the responses, printed by a few lines of Java on the broker's own jars."""
    program = FOLDER / "ConfigDefinitions.java"
    command = ["java", "-cp", f"{broker_libraries('3.9.2')}/*", str(program)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def written(value: Any, depth: int) -> str:
    """JSON with a line for each item down to `depth`, so that a change shows as its own line."""
    if isinstance(value, dict) and value and depth:
        items = (f"{json.dumps(key)}: {written(item, depth - 1)}" for key, item in value.items())
        return "{\n" + ",\n".join(items) + "\n}"
    if isinstance(value, list) and depth > 1:
        return "[\n" + ",\n".join(written(item, 0) for item in value) + "\n]"
    return json.dumps(value, ensure_ascii=False)


def main() -> None:
    """Start, record, write."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with apache_node(folder, overrides=OVERRIDES) as broker:
            recorded = record(Client(broker.address))
        settings = parse_properties((folder / "server.properties").read_bytes())
    recorded = {"settings": settings, **recorded, "definitions": definitions()}
    lines = written(recorded, 4)
    for key, instead in PUT_BACK.items():
        lines = lines.replace(settings[key], instead)
    file = FOLDER / "configs_3_9_2.json"
    file.write_text(lines + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
