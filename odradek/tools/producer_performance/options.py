"""The flags of `odradek producer-perf-test`, and the properties of its producer.

Source: Kafka 3.9's ProducerPerformance.
"""

from __future__ import annotations

from argparse import Namespace
from typing import Final, NamedTuple

from odradek.tools.argument_parser import ArgumentParser, double, int32, int64
from odradek.tools.arguments import add_arguments
from odradek.tools.console.errors import ConsoleError
from odradek.tools.console.properties import load_properties

TRANSACTIONAL_ID: Final = "performance-producer-default-transactional-id"
CLIENT_ID: Final = "perf-producer-client"


class PerformanceOptions(NamedTuple):
    """The values of the command line."""

    topic: str
    num_records: int
    record_size: int | None
    """Bytes of each value."""
    payload_file: str | None
    payload_delimiter: str
    throughput: float
    """Records a second; negative: as many as possible; 0: one record, and then none."""
    producer_props: list[str]
    producer_config: str | None
    print_metrics: bool
    transactional_id: str
    transaction_duration_ms: int
    """Age at which a transaction is committed; 0 or less: records are sent without transactions."""


def parser() -> ArgumentParser:
    """The parser of the command line."""
    parser = ArgumentParser(
        prog="producer-performance",
        description="Measure how many records a second a producer gets acknowledged.",
    )
    add_arguments(
        parser,
        "producer-perf-test",
        {
            "--num-records": int64,
            "--payload-delimiter": {"default": "\\n"},
            "--throughput": double,
            "--producer-props": {"nargs": "+", "default": []},
            "--transactional-id": {"default": TRANSACTIONAL_ID},
            "--transaction-duration-ms": {"type": int64, "default": 0},
        },
    )
    payload = parser.add_mutually_exclusive_group(required=True)
    add_arguments(payload, "producer-perf-test payload", {"--record-size": int32})
    return parser


def checked_options(parser: ArgumentParser, values: Namespace) -> PerformanceOptions:
    """The values of a command line; ends the process as for any other error of it."""
    named = {name.replace(".", "_"): value for name, value in vars(values).items()}
    options = PerformanceOptions(**{name: named[name] for name in PerformanceOptions._fields})
    if options.num_records <= 0:
        parser.error("--num-records should be greater than zero")
    if options.record_size is not None and options.record_size <= 0:
        parser.error("--record-size should be greater than zero")
    if not options.producer_props and options.producer_config is None:
        parser.error("Either --producer-props or --producer.config must be specified.")
    return options


def producer_properties(options: PerformanceOptions) -> dict[str, str]:
    """The properties of the producer: --producer-props before --producer.config.

    Differs from Kafka: `batch.size` is librdkafka's, 1 MB, unless it is given.
    raises  ConsoleError for an unreadable file, and for a property that is not a pair
    """
    path = options.producer_config
    properties = {} if path is None else load_properties(path)
    for text in options.producer_props:
        pieces = text.rstrip("=").split("=")
        if len(pieces) != 2:
            raise ConsoleError("java.lang.IllegalArgumentException", f"Invalid property: {text}")
        properties[pieces[0]] = pieces[1]
    properties.setdefault("client.id", CLIENT_ID)
    properties.setdefault("bootstrap.servers", "")
    properties.setdefault("buffer.memory", "33554432")
    properties.setdefault("linger.ms", "0")
    properties.setdefault("max.block.ms", "60000")
    return properties


def transactional_configs(transactional_id: str, properties: dict[str, str]) -> dict[str, str]:
    """What makes a producer of librdkafka transactional.

    Deliveries must end before a transaction does, which Kafka's producer does not ask for.
    """
    timeout_ms = properties.pop("transaction.timeout.ms", "60000")
    properties.pop("transactional.id", None)
    properties.setdefault("delivery.timeout.ms", timeout_ms)
    return {"transactional.id": transactional_id, "transaction.timeout.ms": timeout_ms}
