"""Topics with a codec of their own: the broker reads what libraries wrote, and writes it again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from odradek.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tests.clients.contract import CODECS, EARLIEST, Abilities, Client, How
from tests.clients.records import build_messages, expect
from tests.support.wire import Wire

LIBRARIES = ("confluent-kafka", "java-3.9.2", "kafka-python")
PLAIN = Abilities(null_headers=False)


def make_topic(bootstrap: str, topic: str, partitions: int, codec: str) -> None:
    config = CreatableTopicConfig(name="compression.type", value=codec)
    creatable = CreatableTopic(
        name=topic,
        num_partitions=partitions,
        replication_factor=1,
        assignments=[],
        configs=[config],
    )
    with Wire(bootstrap) as wire:
        response = wire.call(CreateTopicsRequest(topics=[creatable], timeout_ms=60_000), 7)
    assert response.topics[0].error_code == 0


@pytest.mark.parametrize("writer_name", LIBRARIES)
@pytest.mark.parametrize("codec", ["snappy", "lz4"])
def test_records_are_read_by_every_library_after_recompression(
    client: Callable[[str], Client], bootstrap: str, topic: str, codec: str, writer_name: str
) -> None:
    make_topic(bootstrap, topic, len(CODECS), codec)
    writer = client(writer_name)
    for partition, written in enumerate(CODECS):
        sent = build_messages(PLAIN, partition)
        writer.produce(topic, sent, How(codec=written, acks="all"))
        for reader_name in LIBRARIES:
            got = client(reader_name).read(topic, partition, EARLIEST, len(sent)).messages()
            expect(sent, got, first_offset=0, timed=writer.abilities.chooses_timestamps)
