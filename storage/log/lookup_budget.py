"""How much of the event loop's time one look-up may take.

Offsets are found in a bounded number of steps.  Searches by time are not always: the greatest
timestamps of a thousand segments may have to be read, or a segment walked through because its log
starts within it.  What would take too long raises `TooLong` on the loop, and is done in a thread
(`storage/log/time_lookup`), where nothing is limited.
"""

from __future__ import annotations

from typing import Final

from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.protocol.records.batch import CODEC_MASK, RecordBatch

READS_MAX: Final = 16
HEADERS_MAX: Final = 1_000
RECORDS_MAX: Final = 500
PLAIN_BYTES_MAX: Final = 256 << 10
COMPRESSED_BYTES_MAX: Final = 16 << 10


class TooLong(BrokerError):
    """The look-up has to be done in a thread.

    As an error of the protocol it is one after which clients try again.
    """

    def __init__(self) -> None:
        super().__init__(ErrorCode.OFFSET_NOT_AVAILABLE, "the look-up takes longer")


class Effort:
    """What is left of one look-up's share: about a millisecond in all."""

    __slots__ = ("_headers", "_reads", "_records")

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
        """Before a batch is passed over; raises TooLong."""
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


class Unlimited(Effort):
    """Of a thread: it may take what it needs."""

    __slots__ = ()

    def on_read(self) -> None:
        """Go on."""

    def on_header(self) -> None:
        """Go on."""

    def on_batch(self, batch: RecordBatch) -> None:
        """Go on."""


UNLIMITED: Final = Unlimited()
