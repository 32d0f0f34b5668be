"""How much of the event loop's time one lookup may take.

An offset is found in a bounded number of steps.  A search by time may take more: the greatest
timestamps of a thousand segments may have to be read, or all batches of the segment in which the
log starts.  Beyond the budget `TooLong` is raised, and the search is done in a thread
(`log/time_lookup`), without a limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records import record
from odradek.protocol.records.batch import CODEC_MASK, RecordBatch

READS_MAX: Final = 16
HEADERS_MAX: Final = 1_000
RECORDS_MAX: Final = 500
PLAIN_BYTES_MAX: Final = 256 << 10
COMPRESSED_BYTES_MAX: Final = 16 << 10
OUTPUT_BYTES_MAX: Final = 1 << 20
"""5 KiB may grow to 100 MiB."""


class TooLong(BrokerError):
    """The lookup has to be done in a thread.

    Clients retry after its error code.
    """

    def __init__(self) -> None:
        super().__init__(ErrorCode.OFFSET_NOT_AVAILABLE, "the lookup takes longer")


class LookupBudget:
    """What one lookup has left: about a millisecond in all."""

    __slots__ = ("_headers", "_reads", "_records")

    output_bytes_max = OUTPUT_BYTES_MAX
    """What the records of a batch may grow to when they are decompressed."""

    def __init__(self) -> None:
        self._reads = READS_MAX
        self._headers = HEADERS_MAX
        self._records = RECORDS_MAX

    def on_read(self) -> None:
        """Before a file is opened that may not be open; raises TooLong."""
        self._reads -= 1
        if self._reads < 0:
            raise TooLong

    def on_header(self) -> None:
        """Before a batch is skipped; raises TooLong."""
        self._headers -= 1
        if self._headers < 0:
            raise TooLong

    def on_batch(self, batch: RecordBatch) -> None:
        """Before the records of a batch are decoded; raises TooLong."""
        self._records -= batch.record_count
        is_compressed = batch.attributes & CODEC_MASK
        bytes_max = COMPRESSED_BYTES_MAX if is_compressed else PLAIN_BYTES_MAX
        if self._records < 0 or batch.size > bytes_max:
            raise TooLong


class _Unlimited(LookupBudget):
    """The budget of a lookup in a thread: it has no end."""

    __slots__ = ()

    output_bytes_max = record.OUTPUT_BYTES_MAX

    def on_read(self) -> None:
        pass

    def on_header(self) -> None:
        pass

    def on_batch(self, batch: RecordBatch) -> None:
        pass


UNLIMITED: Final = _Unlimited()


@contextmanager
def too_long_if_limited(budget: LookupBudget) -> Iterator[None]:
    """Around the decoding of a batch: what fails within a limit is left to the thread, which finds
    out whether the batch is damaged or only large."""
    try:
        yield
    except BrokerError:
        if budget is UNLIMITED:
            raise
        raise TooLong from None
