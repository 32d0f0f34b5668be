"""TxnOffsetCommit, and what markers of `__consumer_offsets` make of it."""

from __future__ import annotations

from typing import Any

from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from tests.scripts.chapters.groups_members import UNKNOWN_ID, Member, stable, wait_for_coordinator
from tests.scripts.chapters.groups_offsets import ABSENT, METADATA_MAX, Place, commit, fetch
from tests.scripts.chapters.groups_stored import OFFSETS_TOPIC, stored
from tests.scripts.chapters.producers import new_id
from tests.scripts.chapters.transactions import MARKERS, marker
from tests.scripts.talk import Talk, metadata_of, versions_of

TOPIC = "transactions-offsets"
COMMIT, FETCH, NEWEST = 8, 8, 4
UNSTABLE = 88


def play(talk: Talk) -> None:
    """Commits of transactions that are committed and aborted, then who may commit."""
    wait_for_coordinator(talk)
    talk.make_topic(TOPIC, 4)
    versions(talk)
    mixed(talk)
    refused(talk)
    who_commits(talk)
    deletions(talk)
    stored(talk, "txn-0", "txn-2", "txn-3", "txn-4", "mixed", "producers", "someone", "gone")


def txn_commit(
    group: str, producer_id: int, *at: tuple[Place, int], **changes: Any
) -> TxnOffsetCommitRequest:
    """Offsets within a transaction."""
    topics: list[TxnOffsetCommitRequestTopic] = []
    for (topic, partition), offset in at:
        if not topics or topics[-1].name != topic:
            topics.append(TxnOffsetCommitRequestTopic(name=topic, partitions=[]))
        topics[-1].partitions.append(
            TxnOffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=offset,
                committed_leader_epoch=changes.get("epoch", -1),
                committed_metadata=changes.get("metadata", f"at {offset}"),
            )
        )
    values: dict[str, Any] = {
        "transactional_id": "tx",
        "group_id": group,
        "producer_id": producer_id,
        "producer_epoch": 0,
        "topics": topics,
    }
    others = {key: value for key, value in changes.items() if key not in ("epoch", "metadata")}
    return TxnOffsetCommitRequest(**(values | others))


def end(talk: Talk, producer_id: int, *, is_commit: bool = True, epoch: int = 0) -> None:
    """Markers in all partitions of `__consumer_offsets`, without writing down the response."""
    count = len(talk.quiet(metadata_of([OFFSETS_TOPIC]), 12).topics[0].partitions)
    places = [(OFFSETS_TOPIC, index) for index in range(count)]
    request = WriteTxnMarkersRequest(
        markers=[marker(producer_id, *places, is_commit=is_commit, epoch=epoch)]
    )
    response = talk.quiet(request, MARKERS)
    errors = [partition.error_code for partition in response.markers[0].topics[0].partitions]
    assert not any(errors), errors


def settle(talk: Talk, group: str) -> None:
    """Until no offset is pending: Apache Kafka applies a marker after it has responded."""
    talk.until(
        f"the end of the transactions of {group}",
        lambda: talk.quiet(fetch(FETCH, group, None, require_stable=True), FETCH).groups[0],
        lambda response: all(
            p.error_code != UNSTABLE for t in response.topics for p in t.partitions
        ),
    )


def look(talk: Talk, label: str, group: str) -> None:
    """What a group has committed, stable or not."""
    places = [(TOPIC, 0), (TOPIC, 1)]
    for is_stable in (False, True):
        kind = "stable" if is_stable else "any"
        for version in (7, 8):
            some = fetch(version, group, places, require_stable=is_stable)
            talk.ask(f"{label}: {kind}", some, version)
            every = fetch(version, group, None, require_stable=is_stable)
            talk.ask(f"{label}: all, {kind}", every, version)


def versions(talk: Talk) -> None:
    """Every version, into groups of their own; the odd ones are aborted."""
    for version in versions_of(TxnOffsetCommitRequest):
        group, producer_id = f"txn-{version}", new_id(talk, f"of version {version}")
        first = txn_commit(
            group, producer_id, ((TOPIC, 0), 10), epoch=4, metadata=f"version {version}"
        )
        talk.ask("offsets in a transaction", first, version)
        talk.ask(
            "no metadata", txn_commit(group, producer_id, ((TOPIC, 1), 3), metadata=None), version
        )
        look(talk, f"{group} open", group)
        end(talk, producer_id, is_commit=version % 2 == 0)
        settle(talk, group)
        look(talk, f"{group} ended", group)
        none = txn_commit(group, producer_id)
        talk.ask("no topics", none, version)
        empty = TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[])
        none.topics = [empty]
        talk.ask("a topic without partitions", none, version)
        talk.ask("of an empty group id", txn_commit("", producer_id, ((TOPIC, 0), 1)), version)


def mixed(talk: Talk) -> None:
    """Commits within and outside of transactions: the later record counts."""
    group = "mixed"
    producer_id, other_id = new_id(talk, "mixed one"), new_id(talk, "mixed two")
    talk.ask("within", txn_commit(group, producer_id, ((TOPIC, 0), 5)), NEWEST)
    talk.ask("outside, later", commit(group, ((TOPIC, 0), 7), ((TOPIC, 1), 1)), COMMIT)
    talk.ask("of another producer", txn_commit(group, other_id, ((TOPIC, 1), 9)), NEWEST)
    talk.ask("of another producer again", txn_commit(group, other_id, ((TOPIC, 1), 8)), NEWEST)
    look(talk, "mixed, open", group)
    end(talk, producer_id)
    talk.until(
        "the end of the first",
        lambda: talk.quiet(fetch(FETCH, group, [(TOPIC, 0)], require_stable=True), FETCH),
        lambda response: response.groups[0].topics[0].partitions[0].error_code == 0,
    )
    look(talk, "mixed, one committed", group)
    end(talk, other_id)
    settle(talk, group)
    look(talk, "mixed, both committed", group)
    talk.ask("the next transaction", txn_commit(group, other_id, ((TOPIC, 1), 20)), NEWEST)
    end(talk, other_id, is_commit=False)
    settle(talk, group)
    look(talk, "mixed, aborted", group)


def refused(talk: Talk) -> None:
    """Places and metadata that are refused, producers that are fenced."""
    group, producer_id = "producers", new_id(talk, "refused")
    for label, at in (
        ("an unknown topic", [((ABSENT, 0), 1)]),
        ("an unknown partition", [((TOPIC, 9), 1)]),
        ("known and unknown ones", [((ABSENT, 0), 1), ((TOPIC, 9), 2), ((TOPIC, 0), 3)]),
        ("a partition twice", [((TOPIC, 2), 1), ((TOPIC, 2), 2)]),
    ):
        talk.ask(f"a commit for {label}", txn_commit(group, producer_id, *at), NEWEST)
    long = txn_commit(group, producer_id, ((TOPIC, 0), 1), ((TOPIC, 1), 2))
    long.topics[0].partitions[1].committed_metadata = "m" * (METADATA_MAX + 1)
    talk.ask("metadata that is too long", long, NEWEST)
    newer = txn_commit(group, producer_id, ((TOPIC, 3), 5), producer_epoch=3)
    talk.ask("a newer epoch", newer, NEWEST)
    talk.ask("the older epoch again", txn_commit(group, producer_id, ((TOPIC, 3), 6)), NEWEST)
    look(talk, "after epochs", group)
    end(talk, producer_id, epoch=3)
    settle(talk, group)
    talk.ask("after epochs, committed", fetch(FETCH, group, None), FETCH)


def who_commits(talk: Talk) -> None:
    """Generations and members."""
    producer_id = new_id(talk, "of members")
    for group in ("someone", "noone"):
        if group == "someone":
            talk.quiet(commit(group, ((TOPIC, 0), 1)), COMMIT)
        for label, changes in (
            ("a generation", {"generation_id": 0}),
            ("generation -2", {"generation_id": -2}),
            ("an id", {"member_id": UNKNOWN_ID}),
            ("an id and a generation", {"member_id": UNKNOWN_ID, "generation_id": 1}),
            ("an instance", {"group_instance_id": "static"}),
        ):
            request = txn_commit(
                f"{group}-{label}" if group == "noone" else group,
                producer_id,
                ((TOPIC, 0), 2),
                **changes,
            )
            talk.ask(f"{label} in the group of {group}", request, 3)
    member = Member(talk, "txn-members", "one")
    stable(talk, member)
    for label, changes in (
        ("the member", {"member_id": member.member_id, "generation_id": member.generation}),
        ("the member of an older generation", {"member_id": member.member_id, "generation_id": 0}),
        ("the member without a generation", {"member_id": member.member_id}),
        ("an unknown member", {"member_id": UNKNOWN_ID, "generation_id": member.generation}),
        ("an unknown instance", {"group_instance_id": "static", "member_id": member.member_id}),
        ("no member", {}),
    ):
        request = txn_commit("txn-members", producer_id, ((TOPIC, 0), 2), **changes)
        talk.ask(f"{label} of a stable group", request, 3)
    talk.ask("no member in version 0", txn_commit("txn-members", producer_id, ((TOPIC, 1), 2)), 0)
    end(talk, producer_id)


def deletions(talk: Talk) -> None:
    """A group is deleted while its offsets are pending."""
    group, producer_id = "gone", new_id(talk, "of a deleted group")
    talk.ask("before the deletion", txn_commit(group, producer_id, ((TOPIC, 0), 5)), NEWEST)
    talk.quiet(commit(group, ((TOPIC, 1), 1)), COMMIT)
    talk.ask("the deletion", DeleteGroupsRequest(groups_names=[group]), 2)
    talk.ask("after the deletion", fetch(FETCH, group, None, require_stable=True), FETCH)
    end(talk, producer_id)
    settle(talk, group)
    talk.ask("after the marker", fetch(FETCH, group, None), FETCH)
