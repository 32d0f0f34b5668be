"""What sources, steps and sinks have in common: addresses, formats, clusters, registries."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from odradek.pipeline.spec.field_types import Options, Part

HOST_LENGTH_MAX: Final = 63
"""Bound on a label of a host name."""


Count = Annotated[int, Field(ge=1, le=(1 << 31) - 1)]


FileFormat = Annotated[
    Literal["json", "csv", "parquet", "orc", "text"],
    Field(
        description="Of each file; JSON has one object per line, and text is one STRING column, a "
        "row per line.  Spark's `format`."
    ),
]


Coordinate = Annotated[str, Field(pattern=r"^[\w.-]+:[\w.-]+:[\w.-]+$")]


Packages = Annotated[
    list[Coordinate],
    Field(
        description="The connector on Maven Central, as `GROUP:ARTIFACT:VERSION`, fetched at the "
        "start with its dependencies.  Spark's `spark.jars.packages`.",
        examples=[["org.mongodb.spark:mongo-spark-connector_2.13:10.5.0"]],
    ),
]


def _addresses(text: str) -> str:
    given = [address for address in text.split(",") if address.strip()]
    for address in given or [text]:
        host, _, port = address.strip().rpartition(":")
        is_host = re.fullmatch(r"[A-Za-z0-9._%-]+|\[[A-Fa-f0-9:.%]+\]", host) is not None
        if not is_host or any(len(part) > HOST_LENGTH_MAX for part in host.split(".")):
            raise ValueError(f"{address!r} is not HOST:PORT; several are separated by commas")
        if not port.isascii() or not port.isdecimal() or not 1 <= int(port[:6]) <= 65_535:
            raise ValueError(f"{address!r} has no port from 1 to 65535")
    return text


class Cluster(Part):
    """A Kafka cluster.

    options  client properties (`security.protocol`, ...), without Spark's prefix `kafka.`
    """

    bootstrap_servers: Annotated[str, AfterValidator(_addresses)]
    """HOST:PORT of brokers, separated by commas."""
    options: Options = {}


def without_options(url: str) -> str:
    """A JDBC address without its options, which may contain a password."""
    return url.partition("?")[0]


def database_of(url: str) -> str:
    """The type of database in a JDBC address, such as `sqlite`."""
    return url.split(":")[1]


def _address_of_database(url: str) -> str:
    if re.match(r"jdbc:[a-z0-9]+:.", url) is None:
        raise ValueError(f"{without_options(url)!r} is not a JDBC address like jdbc:sqlite:FILE")
    if url == "jdbc:sqlite::memory:":
        raise ValueError("a database in memory ends with its connection; name a file")
    return url


Url = Annotated[str, AfterValidator(_address_of_database)]


def check_place(path: str | None, table: str | None) -> None:
    if path is not None and table is not None:
        raise ValueError("path and table exclude each other")


def check_rejects(rejects: str | None, cluster: str | None) -> None:
    if (rejects is None) != (cluster is None):
        raise ValueError("rejects and rejects_cluster belong together")


def check_message(data_format: str, descriptor: str | None, message: str | None) -> None:
    is_protobuf = data_format == "protobuf"
    if is_protobuf != (descriptor is not None) or is_protobuf != (message is not None):
        raise ValueError('descriptor and message belong to format = "protobuf"')


def _http_addresses(text: str) -> str:
    for address in text.split(","):
        if re.fullmatch(r"https?://[^/?#@\s,]+(/[^?#@\s,]*)?", address.strip()) is None:
            raise ValueError(
                "not an address like http://HOST:8081; several are separated by commas, and an"
                ' account belongs into options: "basic.auth.user.info" = "USER:PASSWORD"'
            )
    return text


class Registry(Part):
    """A schema registry with the interface of Confluent's.

    options  properties of confluent-kafka's SchemaRegistryClient: `basic.auth.user.info`,
             `ssl.ca.location`, `timeout`, ...
    """

    url: Annotated[str, AfterValidator(_http_addresses)] = Field(examples=["http://registry:8081"])
    """The address of the registry; several are separated by commas."""
    options: Options = {}


def options_fault(registry: Registry) -> str | None:
    """What the client says of the options; None when it takes them."""
    # Imported here: most files have no registry.
    from confluent_kafka.schema_registry import SchemaRegistryClient

    try:
        SchemaRegistryClient({"url": registry.url, **registry.options})
    except AttributeError:
        return "a value has another type than the client takes"
    except (TypeError, ValueError) as error:
        return str(error)
    return None
