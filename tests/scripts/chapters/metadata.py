"""Metadata: topics by name and by id, unknown and impossible ones, and creation by asking."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.messages.delete_topics import DeleteTopicsRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.schema import ZERO_UUID
from tests.scripts.talk import Talk, metadata_of, versions_of

UNKNOWN_ID = UUID(int=0x1234567890)
AUTO_CREATE_FROM = 4
"""Older versions cannot say that asking must not create."""


def play(talk: Talk) -> None:
    """Every version; nothing here depends on the topics of other chapters."""
    topic_id = talk.make_topic("metadata", 2)
    for version in versions_of(MetadataRequest):
        talk.ask("a known topic", metadata_of(["metadata"]), version)
        talk.ask("an impossible name", metadata_of(["metadata", "not/possible"]), version)
        if version >= AUTO_CREATE_FROM:
            talk.ask("an unknown topic", metadata_of(["never-made"]), version)
        if version >= 1:
            talk.ask("no topics", MetadataRequest(topics=[]), version)
        if version >= 8:
            request = metadata_of(["metadata"])
            request.include_topic_authorized_operations = True
            request.include_cluster_authorized_operations = version <= 10
            talk.ask("authorized operations", request, version)
    for label, name, requested_id in (
        ("by id", None, topic_id),
        ("by an unknown id", None, UNKNOWN_ID),
        ("by no id and no name", None, ZERO_UUID),
        ("by name and id", "metadata", topic_id),
    ):
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name, topic_id=requested_id)])
        for version in (10, 11, 12):
            if name or version == 12:
                talk.ask(label, request, version)
    talk.ask("the same name twice", metadata_of(["metadata", "metadata"]), 9)
    talk.ask("an empty name", metadata_of([""]), 9)
    talk.ask("a name of 250 letters", metadata_of(["m" * 250]), 9)
    asking = MetadataRequest(topics=[MetadataRequestTopic(name="made-by-asking")])
    talk.ask("asking makes a topic", asking, 9)
    talk.wait_for_topic("made-by-asking", 1)
    talk.ask("the topic made by asking", metadata_of(["made-by-asking"]), 9)
    deletion = DeleteTopicsRequest(topic_names=["made-by-asking"], timeout_ms=10_000)
    talk.quiet(deletion, 5)
    talk.ask("asking right after a deletion", asking, 9)
    talk.until(
        "a topic of that name",
        lambda: talk.quiet(asking, 9).topics[0],
        lambda topic: topic.error_code == 0,
    )
    asking = MetadataRequest(topics=[MetadataRequestTopic(name="__cluster_metadata")])
    talk.ask("asking for the metadata topic of a KRaft cluster", asking, 9)
