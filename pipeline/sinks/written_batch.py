"""The last batch that an exactly-once sink has written, and what it says about the next one.

The batch is stored as the offset of a group: batch id + 1, as a consumer commits the next offset,
and the digest of the batch's input as the metadata.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from odradek.bounded_parsing import parse_json


class UnknownBatch(Exception):
    """Whether a batch was written cannot be found out."""


@dataclass(frozen=True, slots=True)
class WrittenBatch:
    """A batch of a query.

    digest  of the entry of the batch in Spark's offset log; empty when an operator has set the
            offset of the group
    """

    batch_id: int
    digest: str

    @property
    def offset(self) -> int:
        """The offset that stores this batch."""
        return self.batch_id + 1


def query_id(checkpoint: Path) -> str:
    """The id of the query of a checkpoint; a new checkpoint has another one."""
    return str(parse_json((checkpoint / "metadata").read_text())["id"])


def is_written(batch: WrittenBatch, last: WrittenBatch | None, *, is_repeated: bool) -> bool:
    """Whether a batch was written by an earlier run.

    1. It is the last written one, with the same input: it was written.
    2. It is the last written one, with other input, or an earlier one: the checkpoint is not the
       one that wrote it.  The rows between would be lost if it were skipped.
    3. The last written one is an earlier one: it was not written.
    4. Nothing is known of any batch, and this one was begun by an earlier run after others: they
       were not written by this sink, or the offset has expired.

    last         None: the group has no offset
    is_repeated  an earlier run has begun this batch
    raises       UnknownBatch
    """
    if last is None:
        if is_repeated and batch.batch_id > 0:
            raise UnknownBatch(
                f"whether batch {batch.batch_id} was written is unknown: the offset of the last"
                " written batch is missing"
            )
        return False
    if last.batch_id > batch.batch_id:
        raise UnknownBatch(
            f"batch {batch.batch_id} comes after batch {last.batch_id}, which is written: the"
            " checkpoint is an older copy"
        )
    if last.batch_id < batch.batch_id:
        return False
    if last.digest not in ("", batch.digest):
        raise UnknownBatch(
            f"batch {batch.batch_id} is written, with other input than the checkpoint has for it"
        )
    return True
