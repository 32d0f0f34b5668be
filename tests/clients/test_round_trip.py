"""Each client library reads the records that it has written, with each compression and acks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.clients.contract import CODECS, EARLIEST, LATEST, Client, How, at_offset, at_time
from tests.clients.libraries import NAMES
from tests.clients.records import BASE_MS, STEP_MS, build_messages, expect

Clients = Callable[[str], Client]

each_client = pytest.mark.parametrize("name", NAMES)


def make_topic(client: Clients, name: str, topic: str, partitions: int) -> None:
    """Create a topic with the library's admin client if it has one."""
    maker = client(name)
    if not maker.abilities.creates_topics:
        maker = client("kafka-python")
    maker.create_topic(topic, partitions)


@each_client
def test_records_are_read_unchanged_with_every_compression(
    client: Clients, topic: str, name: str
) -> None:
    library = client(name)
    make_topic(client, name, topic, len(CODECS))
    for partition, codec in enumerate(CODECS):
        if codec not in library.abilities.codecs:
            continue
        sent = build_messages(library.abilities, partition)
        offsets = library.produce(topic, sent, How(codec=codec, acks="all"))
        if library.abilities.tells_offsets:
            assert offsets == list(range(len(sent)))
        reader = library.read(topic, partition, EARLIEST, len(sent))
        assert reader.position == 0
        expect(sent, reader.messages(), first_offset=0, timed=library.abilities.chooses_timestamps)


@each_client
def test_all_acks_and_the_idempotent_producer_store_records_once_and_in_order(
    client: Clients, topic: str, name: str
) -> None:
    library = client(name)
    make_topic(client, name, topic, 1)
    ways = [How(acks="0"), How(acks="1"), How(acks="all")]
    if library.abilities.idempotent:
        ways += [How(acks="all", idempotent=True), How("gzip", acks="all", idempotent=True)]
    stored = 0
    for how in ways:
        sent = build_messages(library.abilities, 0, first=stored)
        offsets = library.produce(topic, sent, how)
        if how.acks == "0":
            assert set(offsets) == {-1}
        elif library.abilities.tells_offsets:
            assert offsets == list(range(stored, stored + len(sent)))
        got = library.read(topic, 0, at_offset(stored), len(sent)).messages()
        expect(sent, got, first_offset=stored, timed=library.abilities.chooses_timestamps)
        stored += len(sent)
    assert library.read(topic, 0, LATEST, 0).position == stored


@each_client
def test_consumers_start_at_earliest_latest_an_offset_and_a_time(
    client: Clients, topic: str, name: str
) -> None:
    library = client(name)
    writer = library if library.abilities.chooses_timestamps else client("kafka-python")
    make_topic(client, name, topic, 1)
    sent = build_messages(library.abilities, 0)
    writer.produce(topic, sent, How())

    def check(start: str, position: int) -> None:
        reader = library.read(topic, 0, start, len(sent) - position)
        assert reader.position == position
        expect(sent[position:], reader.messages(), first_offset=position, timed=True)

    check(EARLIEST, 0)
    check(at_offset(4), 4)
    check(at_time(BASE_MS), 0)
    check(at_time(BASE_MS + 3 * STEP_MS), 3)
    check(at_time(BASE_MS + 3 * STEP_MS + 1), 4)
    check(at_time(BASE_MS + 99 * STEP_MS), len(sent))

    at_the_end = library.read(topic, 0, LATEST, len(sent))
    assert at_the_end.position == len(sent)
    other = client("kafka-python")
    later = build_messages(library.abilities.and_those_of(other.abilities), 0, first=len(sent))
    other.produce(topic, later, How())
    expect(later, at_the_end.messages(), first_offset=len(sent), timed=True)
