"""OffsetCommit, OffsetFetch, OffsetDelete."""

from __future__ import annotations

from typing import Any, Final

from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from tests.scripts.chapters.groups_members import (
    SILENCE_S,
    UNKNOWN_ID,
    Member,
    describe,
    stable,
    subscription,
    wait_for_coordinator,
)
from tests.scripts.chapters.groups_stored import stored
from tests.scripts.normal import FIXED_MS
from tests.scripts.talk import Talk, versions_of

TOPIC: Final = "groups-offsets"
OTHER: Final = "groups-offsets-other"
MANY: Final = "groups-offsets-many"
ABSENT: Final = "never-made"
METADATA_MAX: Final = 4096
COMMIT, FETCH = 9, 9
GROUPS_FROM: Final = 8
TWO_UNITS: Final = "\U0001d11e"
"""One character that Java counts as two."""

Place = tuple[str, int]


def play(talk: Talk) -> None:
    """Commits, then what is fetched of them, then what is deleted."""
    wait_for_coordinator(talk)
    talk.make_topic(TOPIC, 3)
    talk.make_topic(OTHER, 1)
    talk.make_topic(MANY, 60)
    commit_versions(talk)
    metadata_sizes(talk)
    places(talk)
    who_commits(talk)
    fetch_versions(talk)
    several_groups(talk)
    deletions(talk)
    deletions_by_members(talk)
    stored(talk, "commits-2", "commits-4", "commits-9", "metadata", "places", "deleting", "members")


def commit(group: str, *at: tuple[Place, int], **changes: Any) -> OffsetCommitRequest:
    """Offsets of a client that is no member; neighbours of one topic stand in one entry."""
    topics: list[OffsetCommitRequestTopic] = []
    for (topic, partition), offset in at:
        if not topics or topics[-1].name != topic:
            topics.append(OffsetCommitRequestTopic(name=topic, partitions=[]))
        topics[-1].partitions.append(
            OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=offset,
                committed_leader_epoch=changes.get("epoch", -1),
                committed_metadata=changes.get("metadata", f"at {offset}"),
            )
        )
    values: dict[str, Any] = {"group_id": group, "topics": topics}
    others = {key: value for key, value in changes.items() if key not in ("epoch", "metadata")}
    return OffsetCommitRequest(**(values | others))


def fetch(
    version: int, group: str, places: list[Place] | None, *, require_stable: bool = False
) -> OffsetFetchRequest:
    """Some places of a group, or with None all of them."""
    topics: dict[str, list[int]] = {}
    for topic, partition in places or ():
        topics.setdefault(topic, []).append(partition)
    if version < GROUPS_FROM:
        request_topics = [
            OffsetFetchRequestTopic(name=name, partition_indexes=p) for name, p in topics.items()
        ]
        return OffsetFetchRequest(
            group_id=group,
            topics=None if places is None else request_topics,
            require_stable=require_stable,
        )
    asked = of_group(group, None if places is None else list(topics.items()))
    return OffsetFetchRequest(groups=[asked], require_stable=require_stable)


TopicsWithPartitions = list[tuple[str, list[int]]]
"""Topics with partitions."""


def of_group(group: str, places: TopicsWithPartitions | None) -> OffsetFetchRequestGroup:
    """What is asked of one of several groups."""
    topics = [OffsetFetchRequestTopic(name=name, partition_indexes=p) for name, p in places or ()]
    return OffsetFetchRequestGroup(group_id=group, topics=None if places is None else topics)


def commit_versions(talk: Talk) -> None:
    """Every field of every version, into groups of their own."""
    for version in versions_of(OffsetCommitRequest):
        group = f"commits-{version}"
        first = commit(group, ((TOPIC, 0), 10), epoch=4, metadata=f"version {version}")
        first.topics[0].partitions[0].commit_timestamp_ms = FIXED_MS
        talk.ask("a first commit", first, version)
        talk.ask("the same again", first, version)
        describe(talk, f"after a commit of {group}", group)
        long = commit(group, ((TOPIC, 1), 11), retention_time_ms=3_600_000)
        talk.ask("a retention time of an hour", long, version)
        talk.ask("no metadata", commit(group, ((TOPIC, 2), 12), metadata=None), version)
        talk.ask("backwards", commit(group, ((TOPIC, 0), 3), epoch=0), version)
        talk.ask("of an empty group id", commit("", ((TOPIC, 0), 1)), version)
        if version >= 2:
            talk.ask("no topics", commit(group), version)
            empty = OffsetCommitRequestTopic(name=TOPIC, partitions=[])
            request = OffsetCommitRequest(group_id=group, topics=[empty])
            talk.ask("a topic without partitions", request, version)
        talk.ask(f"what {group} holds", fetch(FETCH, group, None), FETCH)


def metadata_sizes(talk: Talk) -> None:
    """offset.metadata.max.bytes counts the characters of Java."""
    for label, text in (
        ("as long as may be", "m" * METADATA_MAX),
        ("too long", "m" * (METADATA_MAX + 1)),
        ("of two bytes each", "\u00fc" * METADATA_MAX),
        ("of two units each", TWO_UNITS * (METADATA_MAX // 2)),
        ("of two units each, too long", TWO_UNITS * (METADATA_MAX // 2) + "m"),
        ("empty", ""),
    ):
        talk.ask(f"metadata {label}", commit("metadata", ((TOPIC, 0), 1), metadata=text), COMMIT)
    both = commit("metadata", ((TOPIC, 0), 2), ((TOPIC, 1), 2))
    both.topics[0].partitions[1].committed_metadata = "m" * (METADATA_MAX + 1)
    talk.ask("one of two is too long", both, COMMIT)
    talk.ask("what is left", fetch(FETCH, "metadata", [(TOPIC, 1)]), FETCH)
    refused = commit("metadata-2", ((TOPIC, 0), 1), metadata="m" * (METADATA_MAX + 1))
    talk.ask("too long in an unknown group", refused, COMMIT)
    refused.generation_id_or_member_epoch = 7
    talk.ask("too long with a wrong generation", refused, COMMIT)
    describe(talk, "a group of refused commits", "metadata-2")


def places(talk: Talk) -> None:
    """Topics and partitions that are there or not, offsets that make no sense."""
    for label, at in (
        ("an unknown topic", [((ABSENT, 0), 1)]),
        ("an unknown partition", [((TOPIC, 9), 1)]),
        ("a partition below zero", [((TOPIC, -1), 1)]),
        ("an empty topic", [(("", 0), 1)]),
        ("a topic with a bad name", [(("no/name", 0), 1)]),
        ("known and unknown ones", [((ABSENT, 0), 1), ((TOPIC, 9), 2), ((TOPIC, 0), 3)]),
        ("offset -1", [((TOPIC, 0), -1)]),
        ("offset -2", [((TOPIC, 1), -2)]),
        ("the least offset", [((TOPIC, 1), -(2**63))]),
        ("the greatest offset", [((TOPIC, 2), 2**63 - 1)]),
        ("a partition twice", [((OTHER, 0), 1), ((OTHER, 0), 2)]),
        ("a topic twice", [((TOPIC, 0), 8), ((OTHER, 0), 9), ((TOPIC, 1), 10)]),
        ("the topic of the offsets", [(("__consumer_offsets", 0), 1)]),
    ):
        talk.ask(f"commit for {label}", commit("places", *at), COMMIT)
        talk.ask(f"after {label}", fetch(FETCH, "places", None), FETCH)
    many = [((MANY, partition), partition) for partition in range(60)]
    talk.ask("sixty partitions", commit("many", *many), COMMIT)
    talk.ask("sixty partitions of a group", fetch(FETCH, "many", None), FETCH)
    half = [(MANY, partition) for partition in range(59, 0, -2)]
    talk.ask("half of them from behind", fetch(FETCH, "many", half), FETCH)
    unknown = commit("unknown-only", ((ABSENT, 0), 1))
    unknown.generation_id_or_member_epoch = 5
    talk.ask("only unknown ones, with a wrong generation", unknown, COMMIT)
    for epoch in (0, 5, -2, 2**31 - 1):
        request = commit("epochs", ((TOPIC, 0), 1), epoch=epoch)
        talk.ask(f"leader epoch {epoch}", request, COMMIT)
        talk.ask(f"after leader epoch {epoch}", fetch(FETCH, "epochs", [(TOPIC, 0)]), FETCH)


def who_commits(talk: Talk) -> None:
    """Names and generations that an empty or unknown group does not know."""
    talk.quiet(commit("someone", ((TOPIC, 0), 1)), COMMIT)
    for version in (2, 7, 9):
        for group in ("someone", f"noone-{version}"):
            for label, changes in (
                ("a generation", {"generation_id_or_member_epoch": 0}),
                ("generation -2", {"generation_id_or_member_epoch": -2}),
                ("an id", {"member_id": UNKNOWN_ID}),
                ("an instance", {"group_instance_id": "nowhere"}),
                ("an id and a generation", {"member_id": UNKNOWN_ID, **GENERATION}),
                ("an instance and a generation", {"group_instance_id": "nowhere", **GENERATION}),
            ):
                request = commit(group, ((TOPIC, 0), 1), **changes)
                talk.ask(f"commit into {group} with {label}", request, version)


GENERATION: Final = {"generation_id_or_member_epoch": 1}


def fetch_versions(talk: Talk) -> None:
    """The same questions in every version."""
    talk.quiet(commit("fetched", ((TOPIC, 0), 5), ((TOPIC, 1), 6), ((OTHER, 0), 7), epoch=3), 9)
    for version in versions_of(OffsetFetchRequest):
        for label, group, places in (
            ("one", "fetched", [(TOPIC, 0)]),
            ("three", "fetched", [(OTHER, 0), (TOPIC, 1), (TOPIC, 0)]),
            ("one that is not committed", "fetched", [(TOPIC, 2)]),
            ("an unknown partition", "fetched", [(TOPIC, 9), (TOPIC, 0)]),
            ("a partition below zero", "fetched", [(TOPIC, -1)]),
            ("an unknown topic", "fetched", [(ABSENT, 0)]),
            ("an empty topic", "fetched", [("", 0)]),
            ("a partition twice", "fetched", [(TOPIC, 0), (TOPIC, 0)]),
            ("nothing", "fetched", []),
            ("of an unknown group", "unknown", [(TOPIC, 0)]),
            ("of an empty group id", "", [(TOPIC, 0)]),
        ):
            talk.ask(f"fetch {label}", fetch(version, group, places), version)
        if version >= 2:
            for group in ("fetched", "unknown", ""):
                talk.ask(f"all of {group!r}", fetch(version, group, None), version)
        if version >= 7:
            request = fetch(version, "fetched", [(TOPIC, 0)], require_stable=True)
            talk.ask("stable ones", request, version)
            talk.ask(
                "all stable ones", fetch(version, "fetched", None, require_stable=True), version
            )


def several_groups(talk: Talk) -> None:
    """A list of groups, which may be empty, unknown, or the same."""
    talk.quiet(commit("second", ((TOPIC, 1), 50)), 9)
    cases: tuple[tuple[str, list[tuple[str, TopicsWithPartitions | None]]], ...] = (
        ("two", [("fetched", [(TOPIC, [0, 1])]), ("second", [(TOPIC, [1])])]),
        ("all and some", [("fetched", None), ("second", [(TOPIC, [0])])]),
        ("unknown ones", [("unknown", None), ("", None), ("fetched", [(OTHER, [0])])]),
        ("one twice", [("second", None), ("second", [(TOPIC, [1, 2])])]),
        ("a topic twice", [("fetched", [(TOPIC, [0]), (OTHER, [0]), (TOPIC, [1])])]),
        ("a topic without partitions", [("fetched", [(TOPIC, [])])]),
    )
    for version in range(GROUPS_FROM, FETCH + 1):
        for label, groups in cases:
            request = OffsetFetchRequest(groups=[of_group(name, asked) for name, asked in groups])
            talk.ask(f"groups: {label}", request, version)
        wire = talk.connect()
        wire.send(OffsetFetchRequest(groups=[]), version)
        talk.write(f"groups: none is never answered, v{version}", wire.is_silent(SILENCE_S))
    member = of_group("fetched", [(TOPIC, [0])])
    member.member_id, member.member_epoch = UNKNOWN_ID, 7
    talk.ask("a member that is none", OffsetFetchRequest(groups=[member]), FETCH)


def delete(group: str, *at: Place) -> OffsetDeleteRequest:
    """Forget places, each in an entry of its own."""
    return OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=partition)]
            )
            for topic, partition in at
        ],
    )


def deletions(talk: Talk) -> None:
    """OffsetDelete of a group without members."""
    talk.quiet(commit("deleting", ((TOPIC, 0), 1), ((TOPIC, 1), 2), ((OTHER, 0), 3)), 9)
    for label, request in (
        ("of an unknown group", delete("unknown", (TOPIC, 0))),
        ("of an empty group id", delete("", (TOPIC, 0))),
        ("of an unknown group, nothing", delete("unknown")),
        ("of nothing", delete("deleting")),
        ("of an unknown topic", delete("deleting", (ABSENT, 0))),
        ("of an unknown partition", delete("deleting", (TOPIC, 9))),
        ("of a place that is not committed", delete("deleting", (TOPIC, 2))),
        ("of one", delete("deleting", (TOPIC, 0))),
        ("of it again", delete("deleting", (TOPIC, 0))),
        ("of known and unknown ones", delete("deleting", (ABSENT, 0), (TOPIC, 1), (TOPIC, 9))),
    ):
        talk.ask(f"deletion {label}", request, 0)
        talk.ask(f"after a deletion {label}", fetch(FETCH, "deleting", None), FETCH)
    empty = OffsetDeleteRequest(
        group_id="deleting", topics=[OffsetDeleteRequestTopic(name=TOPIC, partitions=[])]
    )
    talk.ask("deletion of a topic without partitions", empty, 0)
    describe(talk, "one offset is left", "deleting")
    talk.ask("deletion of the last", delete("deleting", (OTHER, 0)), 0)
    talk.ask("after the last", fetch(FETCH, "deleting", None), FETCH)
    describe(talk, "no offset is left", "deleting")
    talk.ask("deletion when nothing is left", delete("deleting", (OTHER, 0)), 0)


def deletions_by_members(talk: Talk) -> None:
    """What members consume is not deleted."""
    of_topic = (("range", subscription(TOPIC)),)
    consumer = Member(talk, "members", "A", protocols=of_topic)
    delete_of_group(talk, consumer, "consumers")
    for name, kind, content in (
        ("connect", "connect", b"anything"),
        ("unreadable", "consumer", b""),
        ("newer", "consumer", b"\x00\x63" + subscription(TOPIC)[2:] + bytes(9)),
    ):
        member = Member(talk, name, "A", protocol_type=kind, protocols=(("range", content),))
        delete_of_group(talk, member, name)
    consumer.quiet(consumer.leave())
    talk.ask("deletion when the consumers are gone", delete("members", (TOPIC, 0)), 0)
    describe(talk, "an offset of another topic is left", "members")
    joining = Member(talk, "members", "B", protocols=of_topic)
    joining.obtain_id()
    joining.quiet(joining.join())
    talk.ask("deletion before they are assigned", delete("members", (TOPIC, 0), (OTHER, 0)), 0)
    joining.quiet(joining.leave())
    describe(talk, "nothing is left", "members")


def delete_of_group(talk: Talk, member: Member, label: str) -> None:
    """Of a stable group."""
    stable(talk, member)
    for topic in (TOPIC, OTHER):
        member.quiet(member.commit(topic, 5))
    both = delete(member.group, (TOPIC, 0), (OTHER, 0), (ABSENT, 0))
    talk.ask(f"deletion below {label}", both, 0)
    talk.ask(f"what {label} still have", fetch(FETCH, member.group, None), FETCH)
    member.quiet(member.commit(OTHER, 6))
