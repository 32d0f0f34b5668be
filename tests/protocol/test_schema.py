"""The declaration language."""

from __future__ import annotations

import copy
import pickle

import pytest

from odradek.protocol.compiler import decoder, encoder
from odradek.protocol.messages.fetch import FetchPartition, LeaderIdAndEpoch, PartitionData
from odradek.protocol.messages.offset_commit import OffsetCommitRequestPartition
from odradek.protocol.schema import (
    NO_VERSION,
    VersionRange,
    field,
    message,
    nested,
    parse_versions,
    schema_of,
)
from odradek.protocol.stored.consumer_group import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
)


@nested
class Inner:
    number: int = field("int32", "0+", default=7)


@message(versions="1-4", flexible="3+", api_key=9999)
class Sample:
    """A docstring stays."""

    name: str = field("string", "0+")
    numbers: list[int] = field(["int32"], "2+", default=[])
    inner: Inner = field(Inner, "2+", default=Inner())

    def doubled(self) -> str:
        return self.name * 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0+", VersionRange(0, 32767)),
        ("3-7", VersionRange(3, 7)),
        ("4", VersionRange(4, 4)),
        ("none", NO_VERSION),
    ],
)
def test_version_range_is_parsed(text: str, expected: VersionRange) -> None:
    assert parse_versions(text) == expected


def test_range_contains_its_ends() -> None:
    versions = parse_versions("3-7")
    assert [version for version in range(10) if version in versions] == [3, 4, 5, 6, 7]
    assert 0 not in NO_VERSION
    assert 1 not in NO_VERSION


def test_schema_says_what_was_declared() -> None:
    schema = schema_of(Sample)
    assert (schema.name, schema.api_key) == ("Sample", 9999)
    assert (schema.versions, schema.flexible) == (VersionRange(1, 4), VersionRange(3, 32767))
    assert [each.name for each in schema.plain_fields(1)] == ["name"]
    assert [each.name for each in schema.absent_fields(1)] == ["numbers", "inner"]
    assert Sample.__doc__ == "A docstring stays."
    assert Sample(name="a").doubled() == "aa"


def test_field_without_default_must_be_given() -> None:
    with pytest.raises(TypeError, match="name"):
        Sample()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="nome"):
        Sample(name="a", nome="b")  # type: ignore[call-arg]


def test_values_are_slotted_and_compare_by_their_fields() -> None:
    value = Sample(name="a", numbers=[1])
    assert value == Sample(name="a", numbers=[1], inner=Inner(number=7))
    assert value != Sample(name="a", numbers=[2])
    of_another_class: object = Inner()
    assert value != of_another_class
    assert not hasattr(value, "__dict__")
    with pytest.raises(AttributeError):
        value.other = 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="unhashable"):
        hash(value)


def test_representation_is_the_call_that_makes_the_value() -> None:
    value = Sample(name="a", numbers=[1])
    assert repr(value) == "Sample(name='a', numbers=[1], inner=Inner(number=7))"
    assert eval(repr(value)) == value


def test_each_value_gets_new_lists_and_structures() -> None:
    first, second = Sample(name="a"), Sample(name="b")
    first.numbers.append(1)
    first.inner.number = 8
    assert second.numbers == []
    assert second.inner.number == 7
    decode = decoder(Sample, 1)
    data = memoryview(encoder(Sample, 1)(first))
    decode(data, 0)[0].numbers.append(1)
    decode(data, 0)[0].inner.number = 9
    assert decode(data, 0)[0] == Sample(name="a")


def test_values_can_be_copied_and_pickled() -> None:
    value = FetchPartition(partition=1, fetch_offset=5, partition_max_bytes=9)
    assert copy.copy(value) == value
    assert pickle.loads(pickle.dumps(value)) == value


def test_fields_that_a_version_lacks_are_ignored_when_written() -> None:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=5, committed_metadata=None, commit_timestamp_ms=99
    )
    assert partition.committed_leader_epoch == -1
    value = Sample(name="a", numbers=[1, 2])
    decoded, _ = decoder(Sample, 1)(memoryview(encoder(Sample, 1)(value)), 0)
    assert decoded == Sample(name="a")


def test_tagged_structure_is_none_where_its_tag_is_absent() -> None:
    partition = PartitionData(partition_index=0, error_code=0, high_watermark=1, records=None)
    assert partition.current_leader is None
    assert LeaderIdAndEpoch() == LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)


def test_nullable_tagged_structure_has_an_empty_one_as_default() -> None:
    value = ConsumerGroupMemberMetadataValue(
        instance_id=None,
        rack_id=None,
        client_id="c",
        client_host="h",
        subscribed_topic_names=[],
        subscribed_topic_regex=None,
        server_assignor=None,
    )
    assert value.classic_member_metadata == ClassicMemberMetadata()
    assert value.classic_member_metadata is not None
    assert value.classic_member_metadata.session_timeout_ms == 0
