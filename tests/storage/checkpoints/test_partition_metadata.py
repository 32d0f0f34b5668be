"""partition.metadata: Kafka's bytes and refusals."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.topic_partition import ZERO_UUID
from odradek.runtime.system_files import SystemFileSystem
from odradek.storage.checkpoints.partition_metadata import (
    CorruptPartitionMetadata,
    decode_partition_metadata,
    decode_topic_id,
    encode_partition_metadata,
    encode_topic_id,
    read_topic_id,
    write_topic_id,
)

TOPIC_ID = UUID("00112233-4455-6677-8899-aabbccddeeff")


def test_bytes_are_those_that_kafka_writes() -> None:
    data = encode_partition_metadata(TOPIC_ID)
    assert data == b"version: 0\ntopic_id: ABEiM0RVZneImaq7zN3u_w"
    assert len(data) == 43


@given(st.uuids())
def test_topic_id_is_encoded_and_decoded(topic_id: UUID) -> None:
    assert decode_topic_id(encode_topic_id(topic_id)) == topic_id
    assert decode_partition_metadata(encode_partition_metadata(topic_id)) == topic_id


def test_newline_at_the_end_is_accepted() -> None:
    assert decode_partition_metadata(encode_partition_metadata(TOPIC_ID) + b"\n") == TOPIC_ID


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"version: 0",
        b"version: 0\n",
        b"version: 1\ntopic_id: ABEiM0RVZneImaq7zN3u_w",
        b"version: 0\ntopic_id: ABEiM0RVZneImaq7zN3u_",
        b"version: 0\ntopic_id: ABEiM0RVZneImaq7zN3u/w",
        b"version: 0\ntopic: ABEiM0RVZneImaq7zN3u_w",
        b"version: 0\ntopic_id:",
        b"version: 0\ntopic_id: ABEiM0RVZneImaq7zN3u_w\nmore",
        b"version: 0\ntopic_id: " + encode_topic_id(ZERO_UUID).encode(),
        b"version: 0\ntopic_id: \xff",
        b"\x00" * 43,
    ],
)
def test_damaged_file_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptPartitionMetadata):
        decode_partition_metadata(data)


def test_folder_may_have_no_topic_id(tmp_path: Path) -> None:
    files = SystemFileSystem()
    assert read_topic_id(files, str(tmp_path)) is None
    write_topic_id(files, str(tmp_path), TOPIC_ID)
    assert read_topic_id(files, str(tmp_path)) == TOPIC_ID


def test_error_names_the_file(tmp_path: Path) -> None:
    files = SystemFileSystem()
    files.replace(f"{tmp_path}/partition.metadata", b"version: 0\n")
    with pytest.raises(CorruptPartitionMetadata, match=r"partition\.metadata"):
        read_topic_id(files, str(tmp_path))
