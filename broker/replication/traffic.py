"""What clients have written to a partition and read of it, since this broker has its replica."""

from __future__ import annotations


class Traffic:
    """Counters that only rise.  Source: Kafka's BrokerTopicStats."""

    __slots__ = ("bytes_in", "bytes_out", "records_in")

    def __init__(self) -> None:
        self.records_in = 0
        self.bytes_in = 0
        """Bytes of batches that producers sent, as they are stored."""
        self.bytes_out = 0
        """Bytes of batches in responses to consumers."""

    def wrote(self, records: int, size: int) -> None:
        """Batches of producers were appended."""
        self.records_in += records
        self.bytes_in += size

    def read(self, size: int) -> None:
        """Batches go to a consumer."""
        self.bytes_out += size
