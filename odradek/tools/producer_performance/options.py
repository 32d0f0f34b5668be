"""The flags of `odradek producer-perf-test`, and the properties of its producer.

Source: Kafka 3.9's ProducerPerformance.
"""

from __future__ import annotations

from argparse import Namespace
from typing import Final, NamedTuple

from odradek.tools.argument_parser import ArgumentParser, double, int32, int64
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
    add = parser.add_argument
    add("--topic", required=True, metavar="TOPIC", help="the topic to write to")
    add(
        "--num-records",
        required=True,
        type=int64,
        metavar="NUM-RECORDS",
        help="number of records to send",
    )
    add(
        "--payload-delimiter",
        default="\\n",
        metavar="PAYLOAD-DELIMITER",
        help="what separates the payloads of --payload-file (default: a line feed)",
    )
    add(
        "--throughput",
        required=True,
        type=double,
        metavar="THROUGHPUT",
        help="send about this many records a second; -1: as many as possible",
    )
    add(
        "--producer-props",
        nargs="+",
        default=[],
        metavar="PROP-NAME=PROP-VALUE",
        help="properties of the producer; they override those of --producer.config",
    )
    add("--producer.config", metavar="CONFIG-FILE", help="a file of such properties")
    add("--print-metrics", action="store_true", help="print metrics of the producer at the end")
    add(
        "--transactional-id",
        default=TRANSACTIONAL_ID,
        metavar="TRANSACTIONAL-ID",
        help="the transactional id when --transaction-duration-ms is given (default: %(default)s)",
    )
    add(
        "--transaction-duration-ms",
        type=int64,
        default=0,
        metavar="TRANSACTION-DURATION",
        help="commit a transaction after this time; 0: send without transactions",
    )
    _add_payloads(parser)
    return parser


def _add_payloads(parser: ArgumentParser) -> None:
    payload = parser.add_mutually_exclusive_group(required=True)
    payload.add_argument(
        "--record-size",
        type=int32,
        metavar="RECORD-SIZE",
        help="bytes of a record, which are random letters",
    )
    payload.add_argument(
        "--payload-file",
        metavar="PAYLOAD-FILE",
        help="a file of payloads, of which each record is a random one",
    )
    payload.add_argument(
        "--payload-monotonic",
        action="store_true",
        help="a record is its number, from 0",
    )


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
