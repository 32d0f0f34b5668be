"""Changes of topics: records, topics, configs."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from odradek.bounded_parsing import UnreadableText, parse_integer
from odradek.tools.client import Client
from odradek.tools.configs.resources import BROKER, TOPIC, Resource, alter, describe
from odradek.tools.console.errors import ConsoleError
from odradek.tools.console.properties import PRODUCER
from odradek.tools.errors import ToolError, check
from odradek.tools.library_client import open_client
from odradek.tools.topics.requests import create_topics, delete_topics, new_topic
from odradek.web_console.arguments import PageArgumentError, PageArguments
from odradek.web_console.changes.planned_change import PlannedChange, PreviewLine
from odradek.web_console.cluster import ShownCluster
from odradek.web_console.formats import path_part
from odradek.web_console.views.metadata import find_topic, read_metadata

DELIVERY_MS: Final = 20_000
RECORD_MAX: Final = 1_000_000
"""Bytes of a value that a form can have."""
SHOWN_MAX: Final = 2_000


def plan_create_topic(cluster: ShownCluster, form: PageArguments) -> PlannedChange:
    """The brokers check the new topic before it is confirmed.

    raises  ToolError
    """
    topic = new_topic(
        form.required("name"),
        form.number("partitions", -1, -1, 100_000),
        form.number("replication", -1, -1, 1_000),
        configs=_pairs(form.raw("configs"), "="),
    )
    cluster.call(lambda client: check(*create_topics(client, [topic], validate_only=True)))
    lines = [PreviewLine("topic", "", topic.name)]
    lines += [
        PreviewLine(what, "", str(value) if value >= 0 else "the default of the cluster")
        for what, value in (
            ("partitions", topic.num_partitions),
            ("replication factor", topic.replication_factor),
        )
    ]
    lines += [PreviewLine(config.name, "", config.value or "") for config in topic.configs]

    def apply(client: Client) -> list[str]:
        check(*create_topics(client, [topic]))
        return [f"Created topic {topic.name}."]

    return PlannedChange(
        "create-topic",
        f"Create topic {topic.name}",
        lines,
        apply,
        {"topic": topic.name, "partitions": topic.num_partitions},
        f"/topics/{path_part(topic.name)}",
    )


def plan_delete_topic(cluster: ShownCluster, form: PageArguments) -> PlannedChange:
    """raises  ToolError"""
    name = form.required("topic")
    topic = find_topic(read_metadata(cluster), name)

    def apply(client: Client) -> list[str]:
        check(*delete_topics(client, [name]))
        return [f"Deleted topic {name}."]

    return PlannedChange(
        "delete-topic",
        f"Delete topic {name}",
        [PreviewLine("partitions", str(len(topic.partitions)), "")],
        apply,
        {"topic": name},
        "/topics",
        warning="All records of the topic are lost.",
        typed=name,
    )


def plan_alter_config(cluster: ShownCluster, form: PageArguments) -> PlannedChange:
    """Set a config of a topic or a broker, or delete it.

    raises  ToolError
    """
    kind = form.choice("resource", ("topic", "broker"))
    name, config = form.required("name"), form.required("config")
    resource = Resource(TOPIC if kind == "topic" else BROKER, name)
    if kind == "broker":
        form.number("name", 0, 0, 2**31 - 1)
    entries = cluster.call(partial(describe, resource=resource, every=True))
    entry = next((entry for entry in entries if entry.name == config), None)
    if entry is None:
        raise PageArgumentError(f"{kind} {name} has no config '{config}'")
    is_deleted = form.flag("delete")
    value = form.raw("value")
    before = "[hidden]" if entry.is_sensitive else entry.value or ""
    after = "[hidden]" if entry.is_sensitive else value

    def apply(client: Client) -> list[str]:
        added, deleted = ({}, [config]) if is_deleted else ({config: value}, [])
        alter(client, resource, added, deleted)
        return [f"Changed {config}."]

    return PlannedChange(
        "alter-config",
        f"Change {config} of {kind} {name}",
        [PreviewLine(config, before, "the default" if is_deleted else after)],
        apply,
        {kind: name, "config": config, "value": None if is_deleted else after},
        f"/topics/{path_part(name)}/configs" if kind == "topic" else f"/brokers/{name}",
    )


def plan_produce(cluster: ShownCluster, form: PageArguments) -> PlannedChange:
    """Write a record by librdkafka.

    raises  ToolError
    """
    name = form.required("topic")
    topic = find_topic(read_metadata(cluster), name)
    partition = form.number("partition", -1, -1, max(0, len(topic.partitions) - 1))
    is_hex = form.choice("format", ("text", "hex")) == "hex"
    key = _bytes(form.raw("record_key"), is_hex) if form.raw("record_key") else None
    value = None if form.flag("tombstone") else _bytes(form.raw("value"), is_hex)
    if value is not None and len(value) > RECORD_MAX:
        raise PageArgumentError(f"the value has more than {RECORD_MAX} bytes")
    headers = list(_pairs(form.raw("headers"), ":").items())
    lines = [
        PreviewLine("topic", "", name),
        PreviewLine("partition", "", str(partition) if partition >= 0 else "by the key"),
        PreviewLine("key", "", "null" if key is None else form.raw("record_key")[:SHOWN_MAX]),
        PreviewLine("value", "", "tombstone" if value is None else form.raw("value")[:SHOWN_MAX]),
        *(PreviewLine(f"header {header}", "", text) for header, text in headers),
    ]
    record = {"key": key, "value": value, "headers": headers}
    return PlannedChange(
        "produce",
        f"Produce a record into {name}",
        lines,
        partial(_produce, cluster, name, partition, record),
        {"topic": name, "partition": partition, "bytes": len(value or b"")},
        f"/topics/{path_part(name)}/records",
    )


def _produce(
    cluster: ShownCluster, topic: str, partition: int, record: dict[str, Any], _: Client
) -> list[str]:
    properties = {
        **cluster.configs,
        "bootstrap.servers": cluster.bootstrap,
        "delivery.timeout.ms": str(DELIVERY_MS),
        "linger.ms": "0",
    }
    places: list[str] = []
    errors: list[str] = []

    def report(error: Any, message: Any) -> None:
        if error is not None:
            errors.append(error.str())
        else:
            places.append(f"Produced offset {message.offset()} of partition {message.partition()}.")

    try:
        producer = open_client(PRODUCER, properties, {"delivery.report.only.error": False})
        producer.produce(topic, partition=partition, on_delivery=report, **record)
        producer.flush(2 * DELIVERY_MS / 1000)
    except (ConsoleError, BufferError) as error:
        raise ToolError(str(error)) from None
    if errors or not places:
        raise ToolError(errors[0] if errors else "the record was not acknowledged in time")
    return places


def _bytes(text: str, is_hex: bool) -> bytes:
    if not is_hex:
        # Forms have the line ends of mail.
        return text.replace("\r\n", "\n").encode()
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise PageArgumentError("the text is not of hexadecimal digits") from None


def _pairs(text: str, separator: str) -> dict[str, str]:
    """The names and values of lines.

    raises  PageArgumentError
    """
    pairs: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, has_value, value = line.partition(separator)
        if not has_value or not name.strip():
            raise PageArgumentError(f"'{line[:80]}' is not a line of name{separator}value")
        pairs[name.strip()] = value.strip()
    return pairs


def parse_brokers(text: str) -> list[int]:
    """The ids in `1, 2, 3`.

    raises  PageArgumentError
    """
    try:
        return [parse_integer(word.strip(), 0, 2**31 - 1) for word in text.split(",")]
    except UnreadableText:
        raise PageArgumentError(f"'{text[:80]}' is not a list of brokers: 1,2,3") from None
