"""Records of each library are read by every other library.

Each pair takes a codec, so that what a library writes with a codec is read by several others, and
each reads every codec; `make campaign-clients` takes them all.
"""

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
    topics: dict[str, Written] = {}

    def find(name: str) -> Written:
        if name not in topics:
            topic = next(topic_names)
            client("kafka-python").create_topic(topic, len(CODECS))
            writer = client(name)
            sent: dict[int, list[Message]] = {}
            for partition, codec in enumerate(CODECS):
                if codec in writer.abilities.codecs:
                    sent[partition] = build_messages(PLAIN, partition)
                    writer.produce(topic, sent[partition], How(codec=codec))
            topics[name] = Written(topic, sent, writer.abilities.chooses_timestamps)
        return topics[name]

    return find


PAIRS = [
    (writer, reader, (number + index) % len(CODECS))
    for number, writer in enumerate(NAMES)
    for index, reader in enumerate(NAMES)
]


@pytest.mark.parametrize(("writer_name", "reader_name", "first"), PAIRS)
def test_records_of_one_library_are_read_by_every_other(
    client: Callable[[str], Client],
    written: Callable[[str], Written],
    writer_name: str,
    reader_name: str,
    first: int,
) -> None:
    topic = written(writer_name)
    reader = client(reader_name)
    in_order = (*range(first, len(CODECS)), *range(first))
    partition = next(each for each in in_order if is_common(topic, reader, each))
    read_and_compare(topic, reader, partition)


@pytest.mark.slow
@pytest.mark.parametrize("reader_name", NAMES)
@pytest.mark.parametrize("writer_name", NAMES)
def test_records_in_each_codec_are_read_by_every_other(
    client: Callable[[str], Client],
    written: Callable[[str], Written],
    writer_name: str,
    reader_name: str,
) -> None:
    topic = written(writer_name)
    reader = client(reader_name)
    for partition in range(len(CODECS)):
        if is_common(topic, reader, partition):
            read_and_compare(topic, reader, partition)


def is_common(topic: Written, reader: Client, partition: int) -> bool:
    """Whether both libraries have the codec of a partition."""
    return partition in topic.sent and CODECS[partition] in reader.abilities.codecs


def read_and_compare(topic: Written, reader: Client, partition: int) -> None:
    """The reader gets what was written to a partition."""
    sent = topic.sent[partition]
    got = reader.read(topic.topic, partition, EARLIEST, len(sent)).messages()
    expect(sent, got, first_offset=0, timed=topic.timed)
