"""Properties of librdkafka's clients, and of the producer of an exactly-once sink."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaException, Producer

from odradek.pipeline.spec.ends import Cluster
from odradek.pipeline.spec.field_types import Options, texts
from odradek.pipeline.spec.sinks import KafkaSink

DEFAULTS: Final = {
    # A transaction of a killed job is aborted after this time, or when the job starts again.
    "transaction.timeout.ms": "300000",
    # The partitions that Java's producers choose, and so Spark's at-least-once sink.
    "partitioner": "murmur2_random",
    "linger.ms": "5",
    "batch.size": "1000000",
    "queue.buffering.max.messages": "50000",
    "queue.buffering.max.kbytes": "65536",
}
RESERVED: Final = ("bootstrap.servers", "transactional.id", "enable.idempotence")
"""Properties that the sink sets."""


def client_properties(bootstrap_servers: str, options: Options) -> dict[str, str]:
    """The properties of clients of a cluster of the file."""
    return {"bootstrap.servers": bootstrap_servers, **texts(options)}


def producer_properties(sink: KafkaSink, cluster: Cluster) -> dict[str, str]:
    """All properties of the producer but its transactional id."""
    return {
        **DEFAULTS,
        **texts(cluster.options),
        **texts(sink.options),
        "bootstrap.servers": cluster.bootstrap_servers,
    }


def client_fault(options: Options) -> str | None:
    """librdkafka's objection to the properties of a transactional producer; None: it has none.

    The producer exists for a moment and has no address, so it connects to no broker.
    """
    for name in RESERVED:
        if name in options:
            return f"{name} is set by the sink; leave it out"
    given: dict[str, str | int] = {
        **DEFAULTS,
        **texts(options),
        "bootstrap.servers": "",
        "transactional.id": "checked",
        "log_level": 0,
    }
    try:
        Producer(given)
    except KafkaException as error:
        return str(error.args[0].str()).strip().removeprefix("Failed to create producer: ")
    return None
