"""The file of the audit log while its disk is full, and while others rename it."""

from __future__ import annotations

import json
import logging
import stat
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.broker.node.audit_log import AuditFile
from tests.support.broker_process import BrokerProcess

WAIT_S = 60.0
FULL = "/dev/full"


def write(file: AuditFile, name: str) -> None:
    arguments = ("odradek.audit", logging.INFO, __file__, 1, f'{{"request": "{name}"}}', (), None)
    file.handle(logging.LogRecord(*arguments))


def names(path: Path) -> list[str]:
    return [json.loads(line)["request"] for line in path.read_text().splitlines()]


def test_renamed_and_removed_file_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    file = AuditFile(str(path))
    write(file, "first")
    path.rename(tmp_path / "rotated")
    write(file, "second")
    path.unlink()
    write(file, "third")
    file.close()
    assert names(tmp_path / "rotated") == ["first"]
    assert names(path) == ["third"]


def test_full_file_is_renamed_and_each_is_private(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    file = AuditFile(str(path), bytes_max=100)
    for number in range(15):
        write(file, f"request-{number:02}")
    file.close()
    assert names(path) == ["request-14"]
    olds = sorted(tmp_path.glob("audit.log.*"))
    assert [names(old) for old in olds] == [[f"request-{13 - age:02}"] for age in range(9)]
    assert {stat.S_IMODE(old.stat().st_mode) for old in [path, *olds]} == {0o600}


def test_file_that_cannot_be_renamed_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(source: str, target: str) -> None:
        raise PermissionError(13, "Permission denied", source)

    path = tmp_path / "audit.log"
    file = AuditFile(str(path), bytes_max=100)
    monkeypatch.setattr("os.rename", refuse)
    write(file, "first")
    write(file, "second")
    file.close()
    assert names(path) == ["first", "second"]
    assert "cannot be renamed: Permission denied" in caplog.text


def test_line_after_a_torn_one_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from os import write as write_to

    path = tmp_path / "audit.log"
    file = AuditFile(str(path))
    with monkeypatch.context() as patch:
        patch.setattr("os.write", lambda descriptor, line: write_to(descriptor, line[:9]))
        write(file, "torn")
    write(file, "whole")
    file.close()
    torn, whole = path.read_text().splitlines()
    assert torn == '{"time": '
    assert json.loads(whole)["request"] == "whole"


def test_full_disk_is_said_seldom(caplog: pytest.LogCaptureFixture) -> None:
    file = AuditFile(FULL)
    for number in range(100):
        write(file, f"request-{number}")
    file.close()
    assert 1 <= caplog.text.count("No space left on device") <= 5


@pytest.mark.client
def test_broker_with_a_full_disk_of_the_audit_log_stops_cleanly(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, overrides={"odradek.audit.log": FULL})
    try:
        broker.start()
        admin = AdminClient({"bootstrap.servers": broker.address})
        admin.create_topics([NewTopic("ledger", 1, 1)])["ledger"].result(WAIT_S)
        assert broker.stop() == 0
    finally:
        broker.close()
    log = (tmp_path / "broker.log").read_text()
    assert "No space left on device" in log
    assert "the log directories are closed cleanly" in log
