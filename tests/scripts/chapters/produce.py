"""Produce: versions, codecs, acks, and everything that a batch can have wrong."""

from __future__ import annotations

from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.records.builder import build_batch
from odradek.protocol.records.record import Record
from tests.scripts.chapters import batches
from tests.scripts.chapters.batches import batch, patched, produce_request, produce_to, sealed
from tests.scripts.normal import FIXED_MS
from tests.scripts.talk import Talk, versions_of

NAME = "produce"
VERSION = 9
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def play(talk: Talk) -> None:
    """Good, bad, and the settings of topics that matter."""
    talk.make_topic(NAME, 2)
    for version in versions_of(ProduceRequest):
        for acks in (1, -1):
            request = produce_request(NAME, batch(), acks=acks)
            talk.ask(f"three records, acks {acks}", request, version)
        talk.ask("an unknown topic", produce_request("never-made", batch()), version)
        mixed = produce_to([(NAME, 1, batch()), ("never-made", 0, batch()), (NAME, 77, batch())])
        talk.ask("good and bad partitions", mixed, version)
        damaged = patched(batch(), batches.CRC_POSITION, "I", 12345)
        talk.ask("a wrong checksum", produce_request(NAME, damaged), version)
    for codec, name in enumerate(CODECS):
        talk.ask(f"codec {name}", produce_request(NAME, batch(codec=codec)), VERSION)
    for version in (3, 6, 7):
        talk.ask("zstd", produce_request(NAME, batch(codec=4)), version)
    talk.tell(produce_request(NAME, batch(), acks=0), VERSION)
    bad_requests(talk)
    bad_batches(talk)
    talk.ask("everything that was stored", fetch_all(NAME), 12)
    topic_settings(talk)


def fetch_all(topic: str, partition: int = 0) -> FetchRequest:
    """All records of a partition."""
    partition_request = FetchPartition(
        partition=partition, fetch_offset=0, partition_max_bytes=1 << 22
    )
    return FetchRequest(
        max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=topic, partitions=[partition_request])]
    )


def bad_requests(talk: Talk) -> None:
    """Around the batch.  Records that are null are not sent: Apache Kafka never responds."""
    for acks in (2, -2):
        talk.ask(f"acks {acks}", produce_request(NAME, batch(), acks=acks), VERSION)
    talk.ask("records without a byte", produce_request(NAME, b""), VERSION)
    talk.ask("no topics", produce_to([]), VERSION)
    talk.make_topic("produce-twice")
    twice = produce_to([("produce-twice", 0, batch(1)), ("produce-twice", 0, batch(2))])
    talk.ask("a partition twice", twice, VERSION)
    talk.ask("a partition below zero", produce_request(NAME, batch(), partition=-1), VERSION)


def bad_batches(talk: Talk) -> None:
    """What a batch can have wrong, each on a partition of its own, and what was stored of it."""
    bad = damaged_batches()
    talk.make_topic("produce-bad", len(bad))
    for partition, (label, content) in enumerate(bad):
        request = produce_request("produce-bad", content, partition=partition)
        talk.ask(label, request, VERSION)
        talk.ask(f"stored: {label}", fetch_all("produce-bad", partition), 12)


def damaged_batches() -> list[tuple[str, bytearray]]:
    """By what is wrong; the checksum is right unless that is the point."""
    good = batch()
    plain = batch(1)
    return [
        ("a batch cut short", good[:-5]),
        ("a header cut short", good[:40]),
        ("five bytes", good[:5]),
        ("magic 3", patched(good, batches.MAGIC_POSITION, "b", 3)),
        ("magic 1", patched(good, batches.MAGIC_POSITION, "b", 1)),
        ("a length of 10", patched(good, batches.LENGTH_POSITION, "i", 10)),
        ("a length of 2 GiB", patched(good, batches.LENGTH_POSITION, "i", 2**31 - 1)),
        ("a length below zero", patched(good, batches.LENGTH_POSITION, "i", -1)),
        ("a count of 2 where 3 are", sealed(patched(good, batches.COUNT_POSITION, "i", 2))),
        ("a count of 4 where 3 are", sealed(patched(good, batches.COUNT_POSITION, "i", 4))),
        ("a count below zero", sealed(patched(good, batches.COUNT_POSITION, "i", -1))),
        ("a count of 0", sealed(patched(good, batches.COUNT_POSITION, "i", 0))),
        ("a last delta of 9", sealed(patched(good, batches.LAST_DELTA_POSITION, "i", 9))),
        ("an unknown codec", sealed(patched(good, batches.ATTRIBUTES_POSITION, "h", 5))),
        ("gzip that is none", sealed(patched(good, batches.ATTRIBUTES_POSITION, "h", 1))),
        ("unused attributes", sealed(patched(good, batches.ATTRIBUTES_POSITION, "h", 0x80))),
        ("a control batch", sealed(patched(plain, batches.ATTRIBUTES_POSITION, "h", 0x20))),
        ("log append time", sealed(patched(good, batches.ATTRIBUTES_POSITION, "h", 0x08))),
        ("a base offset of 500", build_batch(batches.numbered(2), base_offset=500)),
        ("a leader epoch of 7", batch(leader_epoch=7)),
        ("two batches", good + good),
        ("a batch and a tail", good + b"tail"),
        ("a record with trailing bytes", trailing_bytes()),
    ]


def trailing_bytes() -> bytearray:
    """A batch whose length covers three bytes behind its last record."""
    content = batch() + b"\x00\x00\x00"
    return sealed(patched(content, batches.LENGTH_POSITION, "i", len(content) - 12))


def topic_settings(talk: Talk) -> None:
    """Sizes, keys, times, replicas, recompression."""
    talk.make_topic("small", configs={"max.message.bytes": "1000"})
    talk.ask("a batch that is too large", produce_request("small", batches.big_batch(2_000)), 9)
    squeezed = batches.big_batch(2_000, codec=1)
    talk.ask("a large batch that is compressed", produce_request("small", squeezed), 9)

    talk.make_topic("compacted", configs={"cleanup.policy": "compact"})
    keyless = build_batch([Record(b"k", b"v", timestamp_ms=FIXED_MS), Record(None, b"v")])
    for version in (3, 7, 8, 9):
        talk.ask("no key on a compacted topic", produce_request("compacted", keyless), version)
    talk.ask("a tombstone", produce_request("compacted", build_batch([Record(b"k", None)])), 9)

    talk.make_topic("appended", configs={"message.timestamp.type": "LogAppendTime"})
    for codec in (0, 1):
        talk.ask(f"append time, codec {codec}", produce_request("appended", batch(codec=codec)), 9)
    talk.ask("what it contains", fetch_all("appended"), 12)

    talk.make_topic("timely", configs={"message.timestamp.before.max.ms": "1000"})
    talk.ask("a timestamp that is too old", produce_request("timely", batch()), 9)
    talk.make_topic("soon", configs={"message.timestamp.after.max.ms": "1000"})
    late = build_batch(
        [Record(b"k", b"v", timestamp_ms=FIXED_MS), Record(b"k", b"v", timestamp_ms=2**42)]
    )
    for version in (7, 8):
        talk.ask("a timestamp of the future", produce_request("soon", late), version)
    talk.ask("no timestamp", produce_request(NAME, build_batch([Record(b"k", b"v")])), 9)

    talk.make_topic("careful", configs={"min.insync.replicas": "2"})
    for acks in (1, -1):
        request = produce_request("careful", batch(), acks=acks)
        talk.ask(f"too few replicas, acks {acks}", request, 9)

    for number, name in enumerate(CODECS[1:], 1):
        talk.make_topic(f"to-{name}", configs={"compression.type": name})
        talk.ask(f"to be stored as {name}", produce_request(f"to-{name}", batch()), 9)
        again = produce_request(f"to-{name}", batch(codec=number))
        talk.ask(f"stored as {name} already", again, 9)
        talk.ask(f"what is stored as {name}", fetch_all(f"to-{name}"), 12)
    talk.make_topic("to-plain", configs={"compression.type": "uncompressed"})
    talk.ask("to be stored plain", produce_request("to-plain", batch(codec=1)), 9)
    talk.ask("what is stored plain", fetch_all("to-plain"), 12)
