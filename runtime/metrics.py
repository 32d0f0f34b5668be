"""Counters as plain attributes: a hot path adds to an int, an exporter may read it."""

from __future__ import annotations


class ListenerMetrics:
    """The counters of one listener's connections."""

    connections_opened: int = 0
    connections_closed: int = 0
    connections_refused: int = 0
    """Closed when they were accepted: over a quota, or out of descriptors."""
    throttled_connections: int = 0
    """Accepted later, or closed, for the rate of new connections."""
    accept_throttle_ms: int = 0
    """The sum of their throttle times."""
    successful_authentications: int = 0
    """With SASL; by a TLS handshake where the listener has no SASL.  Source: Kafka's Selector."""
    failed_authentications: int = 0
    """Failed TLS handshakes, too."""
    successful_reauthentications: int = 0
    failed_reauthentications: int = 0


class BrokerMetrics:
    """The counters of one broker.  Only gauges may fall.

    The class has the first values: an instance has those that have changed.
    """

    def __init__(self) -> None:
        self.listeners: dict[str, ListenerMetrics] = {}
        """By name."""

    def listener(self, name: str) -> ListenerMetrics:
        """The counters of a listener."""
        metrics = self.listeners.get(name)
        if metrics is None:
            metrics = self.listeners[name] = ListenerMetrics()
        return metrics

    loop_lag_ms: int = 0
    """Gauge: how late the last timers fired; updated every 250 ms at least."""
    loop_lag_max_ms: int = 0
    """Gauge: the greatest `loop_lag_ms` since the start."""
    loop_callback_max_ms: int = 0
    """Gauge: the longest callback of the event loop since the start."""
    loop_slow_callbacks: int = 0
    """Callbacks that kept the event loop for more than 100 ms."""
    request_errors: int = 0
    """Requests that failed with an unexpected exception."""
    records_in: int = 0
    """Records appended by Produce."""
    records_bytes_in: int = 0
    """Bytes of record batches appended by Produce."""
    records_bytes_out: int = 0
    """Bytes of record batches in responses to consumers."""
    replication_bytes_in: int = 0
    """Bytes of record batches fetched from leaders and appended."""
    connections_opened: int = 0
    connections_closed: int = 0
    connections_refused: int = 0
    """Closed when they were accepted: over a quota, or out of descriptors."""
    ssl_handshakes: int = 0
    """Connections whose TLS handshake was completed."""
    failed_ssl_handshakes: int = 0
    certificate_expires_ms: int = 0
    """Gauge: when the first certificate of a listener expires, in milliseconds since 1970; 0
    without TLS."""
    malformed_frames: int = 0
    """Connections closed because a frame could not be read."""
    delayed_requests: int = 0
    """Gauge: requests that wait for their response, in the purgatory or for a result."""
    isr_expands: int = 0
    """Replicas that came into sync, of partitions led here."""
    isr_shrinks: int = 0
    failed_isr_updates: int = 0
    """AlterPartition responses with an error for a partition."""
    storage_errors: int = 0
    compactions: int = 0
    """Completed cleanings of logs."""
    compaction_read_bytes: int = 0
    compaction_written_bytes: int = 0
    compaction_last_ms: int = 0
    """Gauge: the duration of the last cleaning."""
    compaction_dirty_ratio_max: float = 0.0
    """Gauge: the greatest dirty ratio of any compacted log, at the last check."""
    compaction_uncleanable_logs: int = 0
    """Gauge: logs that cannot be cleaned, and are not tried any more."""
    compaction_worker_deaths: int = 0
    """Worker processes that died or were killed during a cleaning."""
