"""Records a data directory that Apache Kafka wrote: `python -m tests.scripts.log_directory`.

Two states of the same directory are packed into tests/golden/apache_log_dir: `unclean.tar.gz` was
copied while the broker ran (what a kill leaves behind), `clean.tar.gz` after it was stopped.
`contents.json` tells what a reader must find in both.
"""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from odradek.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.scripts.chapters.batches import batch, big_batch, produce_request
from tests.scripts.chapters.producers import request_id
from tests.scripts.normal import FIXED_MS, Masks, normalise
from tests.scripts.talk import Talk
from tests.support.apache import ApacheBroker, apache_node
from tests.support.tool_cache import PROJECT

GOLDEN: Final = PROJECT / "tests" / "golden" / "apache_log_dir"
SMALL_INDEX = {"segment.index.bytes": "1200", "index.interval.bytes": "200"}
"""Apache keeps the index files of an active segment at their full size."""

LOG_START: Final = 21
"""Where DeleteRecords moves the start of the topic `shortened`."""

PARTITIONS: Final = {"plain": 2, "codecs": 1, "rolled": 1, "idempotent": 1, "shortened": 1}
PARTITIONS_ALL: Final = {**PARTITIONS, "append-time": 1, "transactional": 1, "empty": 1}
LEFT_OUT: Final = ("__", ".lock")
"""The directories of Kafka's own topics are not packed; the checkpoints still name them."""


def write_records(talk: Talk, address: str, *, transactions: bool = True) -> None:
    """Every kind of batch that this version writes."""
    for name, partitions in PARTITIONS_ALL.items():
        configs = dict(SMALL_INDEX)
        if name in ("rolled", "shortened", "transactional"):
            configs["segment.bytes"] = "1000"
        if name == "append-time":
            configs["message.timestamp.type"] = "LogAppendTime"
        talk.make_topic(name, partitions, configs)
    for partition in range(2):
        for number in range(4):
            content = batch(3, first=3 * number)
            talk.quiet(produce_request("plain", content, partition=partition), 9)
    for codec in range(5):
        talk.quiet(produce_request("codecs", batch(4, first=4 * codec, codec=codec)), 9)
    talk.quiet(produce_request("codecs", big_batch(3_000)), 9)
    for number in range(12):
        content = batch(4, first=4 * number)
        for name in ("rolled", "shortened"):
            talk.quiet(produce_request(name, content), 9)
    for epoch in range(2):
        producer_id = request_id(talk).producer_id
        for number in range(7):
            content = batch(
                2,
                first=2 * number,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=2 * number,
            )
            talk.quiet(produce_request("idempotent", content), 9)
    for _ in range(2):
        talk.quiet(produce_request("append-time", batch(2)), 9)
    if transactions:
        write_transactions(address)
    asked = DeleteRecordsPartition(partition_index=0, offset=LOG_START)
    topic = DeleteRecordsTopic(name="shortened", partitions=[asked])
    talk.quiet(DeleteRecordsRequest(topics=[topic], timeout_ms=10_000), 2)


def write_transactions(address: str) -> None:
    """Committed and aborted ones, so that there are markers and an index of the aborted."""
    producer = Producer({"bootstrap.servers": address, "transactional.id": "golden"})
    producer.init_transactions()
    for number in range(6):
        producer.begin_transaction()
        for index in range(4):
            producer.produce(
                "transactional",
                key=f"key-{index}",
                value=f"transaction-{number}-{index}" + "." * 60,
                timestamp=FIXED_MS + number,
            )
        producer.flush()
        if number % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()


def read_contents(talk: Talk, masks: Masks) -> dict[str, Any]:
    """What each partition holds, as a consumer with read_committed gets it."""
    contents: dict[str, Any] = {}
    for name, partitions in PARTITIONS_ALL.items():
        for partition in range(partitions):
            masks.step = f"{name}-{partition}"
            contents[masks.step] = read_partition(talk, masks, name, partition)
    return contents


def read_partition(talk: Talk, masks: Masks, name: str, partition: int) -> dict[str, Any]:
    """All of a partition; one response shows one segment at most, when Apache Kafka gives it."""
    offset = LOG_START if name == "shortened" else 0
    whole: dict[str, Any] = {}
    while not whole or offset < whole["high_watermark"]:
        partition_request = FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=1 << 22
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            isolation_level=1,
            topics=[FetchTopic(topic=name, partitions=[partition_request])],
        )
        response = normalise(talk.quiet(request, 12), 12, masks)
        part = response["responses"][0]["partitions"][0]
        assert part["error_code"] == 0, part
        batches = part["records"]["batches"]
        if whole:
            whole["records"]["batches"] += batches
            aborted = whole["aborted_transactions"]
            aborted += [
                transaction
                for transaction in part["aborted_transactions"]
                if transaction not in aborted
            ]
        else:
            whole = part
        if batches:
            offset = batches[-1]["base_offset"] + batches[-1]["last_offset_delta"] + 1
        else:
            assert offset >= whole["high_watermark"], f"{name}-{partition} ends at {offset}"
    return whole


def packed_files(folder: Path, without: tuple[str, ...]) -> Iterator[Path]:
    """The files of a data directory in the order of their names."""
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if not relative.parts[0].startswith(without):
            yield path


def pack(folder: Path, target: Path, without: tuple[str, ...] = LEFT_OUT) -> None:
    """A tar.gz with the times of the files, without their owners.

    without  how the names begin of what is left out
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in packed_files(folder, without):
            entry = archive.gettarinfo(path, str(path.relative_to(folder)))
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            if path.is_dir():
                archive.addfile(entry)
                continue
            with open(path, "rb") as content:
                archive.addfile(entry, content)
    target.write_bytes(gzip.compress(buffer.getvalue(), mtime=0))


def unpack(name: str, folder: Path) -> Path:
    """Put `clean` or `unclean` into a folder, for a test."""
    return unpack_archive(GOLDEN / f"{name}.tar.gz", folder)


def unpack_archive(path: Path, folder: Path) -> Path:
    """Put what was packed into a folder, which is made; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path) as archive:
        archive.extractall(folder, filter="data")
    return folder


def record(apache: ApacheBroker) -> None:
    """Write, look, copy what a kill would leave."""
    talk = Talk(apache.address)
    talk.until("a producer id", lambda: request_id(talk), lambda response: response.error_code == 0)
    write_records(talk, apache.address)
    masks = Masks()
    contents = read_contents(talk, masks)
    talk.close()
    lines = [f"{json.dumps(name)}: {json.dumps(what)}" for name, what in contents.items()]
    (GOLDEN / "contents.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    pack(apache.data, GOLDEN / "unclean.tar.gz")


def main() -> None:
    """Start Apache Kafka, record, stop it, pack what it left."""
    GOLDEN.mkdir(parents=True, exist_ok=True)
    overrides = {
        "log.index.size.max.bytes": "1200",
        "log.cleaner.enable": "false",
        "log.flush.offset.checkpoint.interval.ms": "500",
    }
    with tempfile.TemporaryDirectory() as folder:
        with apache_node(Path(folder), overrides=overrides) as apache:
            record(apache)
        pack(Path(folder) / "data", GOLDEN / "clean.tar.gz")


if __name__ == "__main__":
    main()
