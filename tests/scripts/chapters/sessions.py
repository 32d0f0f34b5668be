"""Fetch sessions (KIP-227): begin, go on, change, end, and every way to be wrong."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from tests.scripts.chapters.batches import batch, produce_request
from tests.scripts.talk import Talk

NAME = "sessions"
VERSIONS = (7, 11, 12, 13, 17)
MANY = 1 << 20
UNKNOWN_SESSION = 1_234_567


def part(partition: int, offset: int) -> FetchPartition:
    """A place in a partition."""
    return FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=MANY)


class Asker:
    """Asks for partitions of one topic within sessions."""

    def __init__(self, talk: Talk, topic: str, topic_id: UUID, version: int) -> None:
        self.talk = talk
        self.topic = topic
        self.topic_id = topic_id
        self.version = version

    def ask(
        self,
        label: str,
        session_id: int,
        epoch: int,
        parts: list[FetchPartition],
        *,
        forget: list[int] | None = None,
    ) -> int:
        """The session id of the response."""
        topics = [FetchTopic(topic=self.topic, topic_id=self.topic_id, partitions=parts)]
        forgotten = [
            ForgottenTopic(topic=self.topic, topic_id=self.topic_id, partitions=forget or [])
        ]
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            session_id=session_id,
            session_epoch=epoch,
            topics=topics if parts else [],
            forgotten_topics_data=forgotten if forget else [],
        )
        response: Any = self.talk.ask(label, request, self.version)
        return int(response.session_id) if response is not None else 0


def play(talk: Talk) -> None:
    """The same story in several versions, each on a topic of its own."""
    for version in VERSIONS:
        topic = f"{NAME}-{version}"
        topic_id = talk.make_topic(topic, 3)
        for partition in range(2):
            talk.quiet(produce_request(topic, batch(2), partition=partition), 9)
        story(Asker(talk, topic, topic_id, version), topic)
    old_and_new_ids(talk)


def story(asker: Asker, topic: str) -> None:
    """One session from its beginning to its end, then the errors."""
    ask = asker.ask
    session_a = ask("begin with three partitions", 0, 0, [part(0, 0), part(1, 0), part(2, 0)])
    ask("nothing was taken: the same again", session_a, 1, [])
    ask("partition 0 moves on", session_a, 2, [part(0, 2)])
    asker.talk.quiet(produce_request(topic, batch(1, first=2), partition=2), 9)
    ask("records came to partition 2", session_a, 3, [part(1, 2)])
    ask("partition 2 moves on: nothing is new", session_a, 4, [part(2, 1)])
    ask("partition 1 is forgotten", session_a, 5, [], forget=[1])
    asker.talk.quiet(produce_request(topic, batch(1, first=2), partition=1), 9)
    ask("records came to the forgotten one", session_a, 6, [])
    ask("an unknown partition joins", session_a, 7, [part(9, 0)])
    ask("the unknown partition is reported again", session_a, 8, [])
    ask("a place behind the end", session_a, 9, [part(0, 77)])
    ask("an epoch that was used", session_a, 9, [])
    ask("an epoch too far ahead", session_a, 30, [])
    ask("the right epoch still works", session_a, 10, [part(0, 0)])
    ask("an unknown session", UNKNOWN_SESSION, 1, [])
    ask("an epoch without a session", 0, 5, [part(0, 0)])
    ask("end it with a whole request", session_a, -1, [part(0, 0)])
    ask("it is gone", session_a, 11, [])
    session_b = ask("begin another", 0, 0, [part(0, 0)])
    session_c = ask("begin again in its place", session_b, 0, [part(1, 0)])
    ask("the old one is gone", session_b, 1, [])
    ask("the new one heartbeats", session_c, 1, [])
    ask("no session at all", 0, -1, [part(0, 0)])
    ask("a session without partitions", 0, 0, [])
    ask("forget what was not in it", session_c, 2, [], forget=[2])


def old_and_new_ids(talk: Talk) -> None:
    """A session uses names or ids (KIP-516); a topic that is created again has another id."""
    topic_id = talk.make_topic("sessions-ids")
    by_name = Asker(talk, "sessions-ids", topic_id, 12)
    by_id = Asker(talk, "sessions-ids", topic_id, 13)
    session_a = by_name.ask("begin by name", 0, 0, [part(0, 0)])
    by_id.ask("go on by id", session_a, 1, [part(0, 0)])
    session_b = by_id.ask("begin by id", 0, 0, [part(0, 0)])
    by_name.ask("go on by name", session_b, 1, [part(0, 0)])
    stranger = Asker(talk, "sessions-ids", UUID(int=77), 13)
    session_c = stranger.ask("begin with an unknown id", 0, 0, [part(0, 0)])
    stranger.ask("the unknown id again", session_c, 1, [])
