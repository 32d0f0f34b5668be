"""meta.properties: Kafka's bytes, Java's properties format, and clear refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.runtime.system_files import SystemFileSystem
from odradek.storage.checkpoints.meta_properties import (
    KRAFT_VERSION,
    MetaProperties,
    MetaPropertiesError,
    check_meta_properties,
    decode_meta_properties,
    encode_meta_properties,
    read_meta_properties,
    stored_broker_id,
    stored_cluster_id,
    write_meta_properties,
)

DATE = "Tue Jul 01 12:00:00 UTC 2025"


def test_bytes_are_those_that_kafka_writes() -> None:
    assert encode_meta_properties(MetaProperties(1, "kVSgfurUQFGGpHMTBqBPiw"), date=DATE) == (
        b"#\n#Tue Jul 01 12:00:00 UTC 2025\nbroker.id=1\nversion=0\n"
        b"cluster.id=kVSgfurUQFGGpHMTBqBPiw\n"
    )


@given(
    st.one_of(st.none(), st.integers(0, 2**31 - 1)),
    st.one_of(st.none(), st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]))),
)
def test_what_is_written_is_read_again(broker_id: int | None, cluster_id: str | None) -> None:
    properties = MetaProperties(broker_id, cluster_id)
    assert decode_meta_properties(encode_meta_properties(properties, date=DATE)) == properties


def test_every_notation_of_java_properties_is_read() -> None:
    data = (
        b"! a comment\r\n  broker.id : 7 \r\ncluster\\.id \t= a\\u0062\\=c\\\n   d\nversion 0\nx\n"
    )
    assert decode_meta_properties(data) == MetaProperties(7, "ab=cd")


def test_file_of_a_kraft_directory_is_read_and_written_as_kafka_does() -> None:
    data = (
        b"#\n#Sat Nov 28 03:11:55 UTC 2026\nnode.id=1\ndirectory.id=eD0I-83L20B0o6ot2GlEVA\n"
        b"version=1\ncluster.id=b2RyYWRlay10ZXN0cy0wMQ\n"
    )
    properties = MetaProperties(
        1, "b2RyYWRlay10ZXN0cy0wMQ", "eD0I-83L20B0o6ot2GlEVA", KRAFT_VERSION
    )
    assert decode_meta_properties(data) == properties
    written = encode_meta_properties(properties, date="Sat Nov 28 03:11:55 UTC 2026")
    assert sorted(written.split(b"\n")) == sorted(data.split(b"\n"))


def test_old_file_may_lack_the_cluster_id() -> None:
    assert decode_meta_properties(b"version=0\nbroker.id=3\n") == MetaProperties(3, None)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"version=2\nnode.id=1\ncluster.id=x\n", "version '2' is not 0"),
        (b"version=1\nnode.id=1\n", "cluster.id is missing"),
        (b"version=1\nbroker.id=1\ncluster.id=x\n", "node.id is missing"),
        (b"version=1\nnode.id=one\ncluster.id=x\n", "node.id 'one' is not a number"),
        (b"version=0\nbroker.id=one\n", "broker.id 'one' is not a number"),
        (b"version=0\nbroker.id=\n", "is not a number"),
        (b"version=0\n" + b"#" * (64 << 10), "has 65546 bytes, more than 65536"),
    ],
)
def test_unusable_file_is_refused_with_its_path(data: bytes, words: str, tmp_path: Path) -> None:
    files = SystemFileSystem()
    files.replace(f"{tmp_path}/meta.properties", data)
    with pytest.raises(MetaPropertiesError, match=f"meta.properties: .*{words}") as raised:
        read_meta_properties(files, str(tmp_path))
    assert "\n" not in str(raised.value)


def test_new_directory_has_no_meta_properties(tmp_path: Path) -> None:
    files = SystemFileSystem()
    assert read_meta_properties(files, str(tmp_path)) is None
    write_meta_properties(files, str(tmp_path), MetaProperties(2, "c"), date=DATE)
    assert read_meta_properties(files, str(tmp_path)) == MetaProperties(2, "c")


def test_directories_of_one_broker_pass() -> None:
    properties = {
        "/a": MetaProperties(1, "c"),
        "/b": MetaProperties(1, None),
        "/d": MetaProperties(1, "c"),
    }
    check_meta_properties(properties, broker_id=1, cluster_id="c")
    check_meta_properties(properties, broker_id=None, cluster_id=None)
    assert stored_broker_id(properties) == 1
    assert stored_cluster_id(properties) == "c"
    assert stored_broker_id({}) is None
    assert stored_cluster_id({}) is None


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        (
            {"/a": MetaProperties(2, "c")},
            "/a/meta.properties belongs to broker 2, this one is broker 1",
        ),
        ({"/a": MetaProperties(1, "x")}, "/a/meta.properties belongs to cluster 'x'"),
        (
            {"/a": MetaProperties(1, "c", "D"), "/b": MetaProperties(1, "c", "D")},
            "/b/meta.properties has the same directory.id as /a",
        ),
    ],
)
def test_directory_of_another_broker_or_cluster_is_refused(
    properties: dict[str, MetaProperties], words: str
) -> None:
    with pytest.raises(MetaPropertiesError, match=words) as raised:
        check_meta_properties(properties, broker_id=1, cluster_id="c")
    assert "\n" not in str(raised.value)


def test_directories_must_agree_when_nothing_is_configured() -> None:
    properties = {"/a": MetaProperties(1, "c"), "/b": MetaProperties(2, "c")}
    with pytest.raises(MetaPropertiesError, match=r"/b/meta\.properties belongs to broker 2"):
        check_meta_properties(properties, broker_id=None, cluster_id=None)
