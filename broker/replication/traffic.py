"""What clients have written to a partition and read of it, since this broker has its replica."""

from __future__ import annotations


class Traffic:
    """Counters that only rise.  Source: Kafka's BrokerTopicStats."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_reads",
        "failed_writes",
        "reads",
        "records_in",
        "writes",
    )

    def __init__(self) -> None:
        self.records_in = 0
        self.bytes_in = 0
        """Bytes of batches that producers sent, as they are stored."""
        self.bytes_out = 0
        """Bytes of batches in responses to consumers."""
        self.writes = 0
        """Batches of producers, refused ones included."""
        self.failed_writes = 0
        self.reads = 0
        """Reads by consumers that had records or an error."""
        self.failed_reads = 0
        """Reads with an error, by followers, too."""

    def wrote(self, batches: int, records: int, size: int) -> None:
        """Batches of producers were appended."""
        self.writes += batches
        self.records_in += records
        self.bytes_in += size

    def refused(self) -> None:
        """A batch of a producer was not appended."""
        self.writes += 1
        self.failed_writes += 1

    def read(self, size: int) -> None:
        """Batches go to a consumer."""
        self.reads += 1
        self.bytes_out += size

    def read_failed(self) -> None:
        """A read has an error."""
        self.reads += 1
        self.failed_reads += 1
