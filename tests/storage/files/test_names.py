from __future__ import annotations

import pytest

from odradek.storage.files import names


def test_segment_files_are_named_by_twenty_digits() -> None:
    assert names.file_name(0, names.LOG) == "00000000000000000000.log"
    assert names.file_name(2**63 - 1, names.TIME_INDEX) == "09223372036854775807.timeindex"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("00000000000000000042.log", (42, ".log")),
        ("00000000000000000042.snapshot", (42, ".snapshot")),
        ("00000000000000000042.log.deleted", (42, ".log.deleted")),
        ("00000000000000000042.index.swap", (42, ".index.swap")),
        ("0000000000000000042.log", None),
        ("00000000000000000042", None),
        ("00000000000000000042log", None),
        ("leader-epoch-checkpoint", None),
        ("99999999999999999999.log", None),
    ],
)
def test_file_names_are_read_back(name: str, expected: tuple[int, str] | None) -> None:
    assert names.parse_file_name(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders-0", names.PartitionFolder("orders", 0, "")),
        ("my-topic.v1-12", names.PartitionFolder("my-topic.v1", 12, "")),
        ("a.b-3.0123abcd-delete", names.PartitionFolder("a.b", 3, "-delete")),
        ("a-3.0123abcd-future", names.PartitionFolder("a", 3, "-future")),
        ("a-3.0123abcd-stray", names.PartitionFolder("a", 3, "-stray")),
        ("a-2147483647", names.PartitionFolder("a", 2**31 - 1, "")),
        ("a-2147483648", None),
        ("a-99999999999999999999.0123abcd-future", None),
        ("a-" + "9" * 250, None),
        ("a-3-delete", None),
        ("lost+found", None),
        ("-3", None),
        ("a-b", None),
        ("a b-0", None),
        ("a\nb-0", None),
        ("a-0\n", None),
        ("\u00e9-0", None),
        ("caf\udce9-3", None),
        ("caf\udce9-3.0123abcd-delete", None),
    ],
)
def test_folder_names_are_read_back(name: str, expected: names.PartitionFolder | None) -> None:
    assert names.parse_folder_name(name) == expected


def test_name_of_a_deleted_partition_never_passes_255_characters() -> None:
    topic = "t" * 249
    name = names.suffixed_folder_name(topic, 123, "0" * 32, names.DELETE_FOLDER)
    assert len(name) == 255
    assert names.parse_folder_name(name) == names.PartitionFolder("t" * 211, 123, "-delete")
    short = names.suffixed_folder_name("orders", 1, "ab", names.FUTURE_FOLDER)
    assert short == "orders-1.ab-future"
