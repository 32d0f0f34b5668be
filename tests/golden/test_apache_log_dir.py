"""Our broker opens a directory that Apache Kafka 3.9.2 wrote, after a clean stop and after a kill.

The golden directory holds every kind of batch, rolled segments, producer snapshots, transaction
markers and checkpoints that name topics which are not there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.scripts.chapters.batches import batch, produce_request
from tests.scripts.differences import compare
from tests.scripts.log_directory import GOLDEN, read_contents, unpack
from tests.scripts.normal import Masks
from tests.scripts.talk import Talk
from tests.support.broker_process import BrokerProcess, odradek_broker
from tests.support.moved_directory import seed_embedded, znodes

each_state = pytest.mark.parametrize("state", ["clean", "unclean"])

CONFIGS = {
    "rolled": {"segment.bytes": "1000"},
    "shortened": {"segment.bytes": "1000"},
    "transactional": {"segment.bytes": "1000"},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
}


def golden_contents() -> dict[str, Any]:
    """What must be found."""
    contents: dict[str, Any] = json.loads((GOLDEN / "contents.json").read_text())
    return contents


def prepare(folder: Path, state: str) -> None:
    """Unpack and make the topics known."""
    data = unpack(state, folder / "data")
    seed_embedded(data, znodes(data, 0, CONFIGS))


def contents_of(broker: BrokerProcess) -> dict[str, Any]:
    """Every partition, once all of them can serve."""
    talk = Talk(broker.address)
    try:
        for name in golden_contents():
            topic, _, _ = name.rpartition("-")
            talk.wait_for_topic(topic, 2 if topic == "plain" else 1)
        return read_contents(talk, Masks())
    finally:
        talk.close()


def differences(broker: BrokerProcess, *, without: tuple[str, ...] = ()) -> list[str]:
    """Between the golden contents and what the broker serves, field by field."""
    all_differences = compare("contents", golden_contents(), contents_of(broker))
    return [
        str(difference) for difference in all_differences if not difference.where.endswith(without)
    ]


@each_state
def test_every_record_of_an_apache_directory_is_served(tmp_path: Path, state: str) -> None:
    prepare(tmp_path, state)
    # A kill may come before the checkpoint of the log starts was written.
    kept_back = ("log_start_offset",) if state == "unclean" else ()
    with odradek_broker(tmp_path) as broker:
        assert differences(broker, without=kept_back) == []
        assert broker.stop() == 0
        broker.start()
        assert differences(broker, without=kept_back) == []


@each_state
def test_appends_to_an_apache_log_continue_at_its_end_offset(tmp_path: Path, state: str) -> None:
    prepare(tmp_path, state)
    with odradek_broker(tmp_path) as broker:
        talk = Talk(broker.address)
        for name, end in (("rolled", 48), ("codecs", 21), ("transactional", 30), ("empty", 0)):
            talk.wait_for_topic(name, 1)
            response = talk.quiet(produce_request(name, batch(2)), 9)
            stored = response.responses[0].partition_responses[0]
            assert (stored.error_code, stored.base_offset) == (0, end), name
        talk.close()
