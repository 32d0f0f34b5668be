"""Clients of librdkafka for tools: Kafka's properties in, a client out, its last statistics."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from odradek.bounded_parsing import parse_json
from odradek.tools.console.errors import ConsoleError, exception_of, log
from odradek.tools.console.library import build
from odradek.tools.console.properties import check_properties, for_library, unknown_properties

POLL_S: Final = 0.1
RECORDS_AT_ONCE: Final = 500
"""Kafka: max.poll.records."""
PERMANENT: Final = ("TOPIC_EXCEPTION", "_AUTO_OFFSET_RESET")
"""Errors of a consumer that no retry mends, besides fatal ones."""
STATISTICS_MS: Final = 500
STATISTICS_WAIT_S: Final = 5.0
STATISTICS_BYTES_MAX: Final = 64 << 20


def open_client(kind: str, properties: Mapping[str, str], extra: Mapping[str, Any]) -> Any:
    """Create a client; a property that librdkafka does not have is logged once.

    kind    PRODUCER or CONSUMER
    extra   properties of librdkafka, which override
    raises  ConsoleError for an invalid value, LibraryMissingError
    """
    check_properties(kind, properties)
    client = build(kind, {**for_library(kind, properties), **extra})
    for name in unknown_properties(kind, properties):
        if name not in extra:
            log("WARN", f"The configuration '{name}' is unknown and has no effect", kind)
    return client


def receive(consumer: Any, is_permanent: Callable[[str], bool]) -> list[Any]:
    """The messages that are there after POLL_S at most; transient errors are logged.

    is_permanent  whether no retry mends an error, by its name in librdkafka
    raises        ConsoleError for such an error, and for a fatal one
    """
    first = consumer.poll(POLL_S)
    messages = []
    for message in () if first is None else (first, *consumer.consume(RECORDS_AT_ONCE - 1, 0)):
        error = message.error()
        if error is None:
            messages.append(message)
        elif error.fatal() or is_permanent(error.name()):
            raise ConsoleError(*exception_of(error))
        else:
            log("WARN", error.str(), "librdkafka")
    return messages


class LastStatistics:
    """The last statistics of a client, which the client emits while it is polled."""

    def __init__(self) -> None:
        self._last: dict[str, Any] = {}
        self._count = 0

    def configs(self) -> dict[str, Any]:
        """What makes a client emit its statistics to this object."""
        return {"statistics.interval.ms": STATISTICS_MS, "stats_cb": self._keep}

    def _keep(self, text: str) -> None:
        self._last = parse_json(text, bytes_max=STATISTICS_BYTES_MAX)
        self._count += 1

    def lines(self, kind: str, client: Any) -> list[str]:
        """The table of metrics that Kafka's tools print, from statistics after now.

        Waits up to STATISTICS_WAIT_S for them.
        """
        deadline = time.monotonic() + STATISTICS_WAIT_S
        before = self._count
        while self._count == before and time.monotonic() < deadline:
            client.poll(STATISTICS_MS / 1000)
        return table(metrics(kind.lower(), self._last))


def table(values: Mapping[str, float]) -> list[str]:
    """Lines of metrics, sorted by name.  Source: Kafka 3.9's ToolsUtils.printMetrics."""
    width = max(map(len, values), default=0)
    rows = [f"{name:{width}} : {values[name]:.3f}" for name in sorted(values)]
    return ["", f"{'Metric Name':{width}}   Value", *rows]


def metrics(kind: str, statistics: Mapping[str, Any]) -> dict[str, float]:
    """Kafka's metrics, as far as librdkafka counts what they are made of.

    kind    producer or consumer
    source  librdkafka's STATISTICS.md
    """
    client = f"client-id={statistics.get('client_id', '')}"
    values: dict[str, float] = {}
    group = f"{kind}-metrics"
    for name, key in _TRAFFIC.items():
        values[f"{group}:{name}:{{{client}}}"] = statistics.get(key, 0)
    for broker in statistics.get("brokers", {}).values():
        if broker["nodeid"] < 0:
            continue
        tags = f"{{{client}, node-id=node-{broker['nodeid']}}}"
        node = f"{kind}-node-metrics"
        for name, key in _NODE_TRAFFIC.items():
            values[f"{node}:{name}:{tags}"] = broker[key]
        values[f"{node}:request-latency-avg:{tags}"] = broker["rtt"]["avg"] / 1000
        values[f"{node}:request-latency-max:{tags}"] = broker["rtt"]["max"] / 1000
    sent = kind == "producer"
    for topic in statistics.get("topics", {}).values():
        tags = f"{{{client}, topic={topic['topic']}}}"
        partitions = [row for number, row in topic["partitions"].items() if int(number) >= 0]
        group, count, size = (
            ("producer-topic-metrics", "record-send-total", "byte-total")
            if sent
            else (
                "consumer-fetch-manager-metrics",
                "records-consumed-total",
                "bytes-consumed-total",
            )
        )
        direction = "tx" if sent else "rx"
        values[f"{group}:{count}:{tags}"] = sum(row[f"{direction}msgs"] for row in partitions)
        values[f"{group}:{size}:{tags}"] = sum(row[f"{direction}bytes"] for row in partitions)
        if sent:
            values[f"{group}:batch-size-avg:{tags}"] = topic["batchsize"]["avg"]
            values[f"{group}:records-per-request-avg:{tags}"] = topic["batchcnt"]["avg"]
    return values


_TRAFFIC: Final = {
    "request-total": "tx",
    "response-total": "rx",
    "outgoing-byte-total": "tx_bytes",
    "incoming-byte-total": "rx_bytes",
}
_NODE_TRAFFIC: Final = {
    "request-total": "tx",
    "response-total": "rx",
    "outgoing-byte-total": "txbytes",
    "incoming-byte-total": "rxbytes",
}
