"""Records of each library are read by every other library."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.clients.contract import CODECS, EARLIEST, Abilities, Client, How, Message
from tests.clients.libraries import NAMES
from tests.clients.records import build_messages, expect


@dataclass(frozen=True, slots=True)
class Written:
    """A topic with one partition per codec, written by one library."""

    topic: str
    sent: dict[int, list[Message]]
    timed: bool


PLAIN = Abilities(null_values=False, null_headers=False, keeps_empty=False)
"""The records that every library can read and write."""


@pytest.fixture(scope="module")
def written(
    client: Callable[[str], Client], topic_names: Iterator[str]
) -> Callable[[str], Written]:
    """Topics by the name of the library that wrote them, each written once."""
    known: dict[str, Written] = {}

    def find(name: str) -> Written:
        if name not in known:
            topic = next(topic_names)
            client("kafka-python").create_topic(topic, len(CODECS))
            writer = client(name)
            sent: dict[int, list[Message]] = {}
            for partition, codec in enumerate(CODECS):
                if codec in writer.abilities.codecs:
                    sent[partition] = build_messages(PLAIN, partition)
                    writer.produce(topic, sent[partition], How(codec=codec))
            known[name] = Written(topic, sent, writer.abilities.chooses_timestamps)
        return known[name]

    return find


@pytest.mark.parametrize("reader_name", NAMES)
@pytest.mark.parametrize("writer_name", NAMES)
def test_records_of_one_library_are_read_by_every_other(
    client: Callable[[str], Client],
    written: Callable[[str], Written],
    writer_name: str,
    reader_name: str,
) -> None:
    topic = written(writer_name)
    reader = client(reader_name)
    for partition, sent in topic.sent.items():
        if CODECS[partition] not in reader.abilities.codecs:
            continue
        got = reader.read(topic.topic, partition, EARLIEST, len(sent)).messages()
        expect(sent, got, first_offset=0, timed=topic.timed)
