"""`make secure`: a cluster of config/secure lets its users in, within what their ACLs allow."""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from odradek.runtime.java_properties import parse_properties
from odradek.tools.cluster.secure import write_files
from tests.repository.sources import ROOT
from tests.support.client_errors import LOGIN, wait_for_error
from tests.support.ports import free_port
from tests.support.processes import LoggedProcess

pytestmark = [pytest.mark.timeout(300), pytest.mark.client]

CONFIGS = ROOT / "config" / "secure"
WAIT_S = 120.0
USERS = ("admin", "alice", "bob")
RECORDS = [b"%d" % number for number in range(20)]


def copy_settings(folder: Path) -> Path:
    """The settings of the sample, with ports that are free."""
    copied = folder / "config"
    shutil.copytree(CONFIGS, copied)
    files = sorted(copied.iterdir())
    assert [file.name for file in files] == [f"server-{number}.properties" for number in (1, 2, 3)]
    texts = [file.read_text() for file in files]
    ports = {port: str(free_port()) for port in re.findall(r"(?<=:)\d{4,5}", "".join(texts))}
    assert len(ports) == 7
    for file, text in zip(files, texts, strict=True):
        file.write_text(re.sub(r"(?<=:)\d{4,5}", lambda match: ports[match[0]], text))
    return copied


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secure")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[LoggedProcess]:
    words = ["odradek.tools.cluster.secure", str(copy_settings(folder))]
    command = [sys.executable, "-I", "-m", *words]
    with LoggedProcess(command, log=folder / "cluster.log", folder=folder) as process:
        process.wait_for_line(r"^odradek cluster is ready on ", timeout_s=WAIT_S)
        yield process
        # At the end of whichever test is the last: the stop is clean.
        assert process.stop(timeout_s=WAIT_S) == 0
    for number in (1, 2, 3):
        assert (folder / "data" / "secure" / f"server-{number}" / ".kafka_cleanshutdown").exists()
    assert not re.search("Traceback|CRITICAL", (folder / "cluster.log").read_text())


def library_configs(folder: Path, user: str) -> dict[str, Any]:
    """What kcat would read."""
    configs = parse_properties((folder / "data" / "secure" / f"{user}.conf").read_bytes())
    return {**configs, "ssl.ca.location": str(folder / configs["ssl.ca.location"]), "log_level": 0}


def produce(configs: Mapping[str, Any]) -> set[KafkaError | None]:
    """The errors of the records."""
    producer = Producer({**configs, "acks": "all"})
    errors: set[KafkaError | None] = set()
    for value in RECORDS:
        producer.produce("orders", value, callback=lambda error, _: errors.add(error))
    assert producer.flush(60) == 0
    return errors


def consume(configs: Mapping[str, Any], group: str) -> list[bytes]:
    """As many records as were produced.

    raises  KafkaException
    """
    consumer = Consumer({**configs, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    values: list[bytes] = []
    try:
        while len(values) < len(RECORDS):
            record = consumer.poll(60)
            assert record is not None
            if (error := record.error()) is not None:
                raise KafkaException(error)
            values.append(bytes(record.value() or b""))
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return sorted(values)


def test_users_do_what_their_acls_allow(cluster: LoggedProcess, folder: Path) -> None:
    alice, bob = library_configs(folder, "alice"), library_configs(folder, "bob")
    assert produce(alice) == {None}
    assert consume(alice, "alices") == sorted(RECORDS)
    assert consume(bob, "bobs") == sorted(RECORDS)
    (refused,) = produce(bob)
    assert refused is not None
    assert refused.name() == "TOPIC_AUTHORIZATION_FAILED"
    with pytest.raises(KafkaException) as raised:
        consume(bob, "alices")
    assert raised.value.args[0].name() == "GROUP_AUTHORIZATION_FAILED"


def test_strangers_are_refused(cluster: LoggedProcess, folder: Path) -> None:
    alice = library_configs(folder, "alice")
    assert "orders" in Producer(alice).list_topics("orders", timeout=60).topics
    for name, value in (
        ("sasl.password", "wrong"),
        *(("security.protocol", protocol) for protocol in ("SASL_PLAINTEXT", "PLAINTEXT", "SSL")),
    ):
        errors: list[KafkaError] = []
        client = Producer({**alice, name: value, "error_cb": errors.append})
        with pytest.raises(KafkaException):
            client.list_topics(timeout=2)
        if value == "wrong":
            wait_for_error(client, errors, LOGIN)
        else:
            client.poll(1)
            assert LOGIN not in {error.name() for error in errors}, errors


def test_tools_take_the_files_of_users(cluster: LoggedProcess, folder: Path) -> None:
    bootstrap = library_configs(folder, "admin")["bootstrap.servers"]
    words = ["acls", "--bootstrap-server", bootstrap, "--list"]
    for user, is_allowed in (("admin", True), ("alice", False)):
        done = subprocess.run(
            [
                *(sys.executable, "-I", "-m", "odradek", *words),
                *("--command-config", f"data/secure/{user}.properties"),
            ],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        assert ("User:bob" in done.stdout) == is_allowed, done
        assert (done.returncode == 0) == is_allowed, done


def test_no_secret_is_in_an_argument_or_the_log(cluster: LoggedProcess, folder: Path) -> None:
    secure = folder / "data" / "secure"
    passwords = [library_configs(folder, user)["sasl.password"] for user in USERS]
    passwords += re.findall(r'user_broker"?="([^"]+)"', (secure / "jaas.conf").read_text())
    assert len(set(passwords)) == 4
    shown = (folder / "cluster.log").read_text()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            shown += (process / "cmdline").read_text(errors="replace")
    assert "config/server-1.properties" in shown
    assert not [password for password in passwords if password in shown]


def test_files_are_for_their_owner_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = copy_settings(tmp_path)
    write_files(settings)
    files = {file: file.read_bytes() for file in (tmp_path / "data" / "secure").iterdir()}
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    write_files(settings)
    assert {file: file.read_bytes() for file in files} == files
    (tmp_path / "data" / "secure" / "ca.key").unlink()
    write_files(settings)
    changed = sorted(file.name for file in files if file.read_bytes() != files[file])
    assert changed == ["ca.key", "ca.pem", *(f"server-{number}.pem" for number in (1, 2, 3))]
