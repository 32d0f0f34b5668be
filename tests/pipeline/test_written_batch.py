"""What the last written batch says about the next one."""

from __future__ import annotations

import pytest

from odradek.pipeline.sinks.written_batch import UnknownBatch, WrittenBatch, is_written

LAST = WrittenBatch(7, "of 7")


@pytest.mark.parametrize(
    ("batch", "last", "is_repeated", "expected"),
    [
        (WrittenBatch(0, "a"), None, False, False),
        (WrittenBatch(0, "a"), None, True, False),
        (WrittenBatch(5, "a"), None, False, False),
        (WrittenBatch(7, "of 7"), LAST, True, True),
        (WrittenBatch(7, "of 7"), WrittenBatch(7, ""), True, True),
        (WrittenBatch(8, "a"), LAST, True, False),
        (WrittenBatch(9, "a"), LAST, True, False),
    ],
)
def test_batch_is_written_only_if_it_is_the_last_one(
    batch: WrittenBatch, last: WrittenBatch | None, is_repeated: bool, expected: bool
) -> None:
    assert is_written(batch, last, is_repeated=is_repeated) is expected


@pytest.mark.parametrize(
    ("batch", "last", "message"),
    [
        (WrittenBatch(5, "a"), None, "whether batch 5 was written is unknown"),
        (WrittenBatch(7, "other"), LAST, "batch 7 is written, with other input"),
        (WrittenBatch(6, "a"), LAST, "the checkpoint is an older copy"),
    ],
)
def test_batch_is_rejected_if_rows_could_be_lost_or_repeated(
    batch: WrittenBatch, last: WrittenBatch | None, message: str
) -> None:
    with pytest.raises(UnknownBatch, match=message):
        is_written(batch, last, is_repeated=True)
