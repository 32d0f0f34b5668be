"""`odradek delete-records`: the flags, lines and exit codes of `kafka-delete-records.sh` 3.9.

Exit codes: 0 success, also when the records of some partitions cannot be deleted (their lines say
so); 1 failure; 2 an invalid command line.  The reason is on stderr.
Source: Kafka 3.9's DeleteRecordsCommand and DeleteRecordsHandler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from odradek.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import BrokerConnection, Client
from odradek.tools.errors import KafkaError, ToolError, partition_text, refused, timed_out
from odradek.tools.json_files import JsonReader, read_json
from odradek.tools.options import CLIENT_FLAGS, Flag, Options
from odradek.tools.partition_offsets import RETRIED, leaders_of
from odradek.tools.run_command import run_with_client

WHAT_IT_DOES: Final = (
    "This tool helps to delete records of the given partitions down to the specified offset."
)
TIMEOUT_MS: Final = 30_000
VERSION: Final = 1
"""The only format of the file."""

FLAGS: Final = (
    *CLIENT_FLAGS,
    Flag(
        "offset-json-file",
        "The first offset of each partition that stays, -1 for the high watermark: "
        '{"partitions": [{"topic": "orders", "partition": 1, "offset": 7}], "version": 1}.',
        "file",
    ),
)


def main(arguments: Sequence[str]) -> int:
    return run_with_client(arguments, WHAT_IT_DOES, _act, FLAGS, ["offset-json-file"])


def _act(client: Client, options: Options) -> None:
    offsets = parse_offsets(read_json(options.required("offset-json-file")))
    print("Executing records delete operation")
    results = delete_records(client, offsets)
    print("Records delete operation completed:")
    for partition, result in results.items():
        text = partition_text(partition)
        if isinstance(result, KafkaError):
            print(f"partition: {text}\terror: {result}")
        else:
            print(f"partition: {text}\tlow_watermark: {result}")


def parse_offsets(data: JsonReader | None) -> dict[TopicPartition, int]:
    """The first offset of each partition that stays, in the order of the file.

    data    None for a file without JSON
    raises  ToolError
    """
    if data is None:
        raise ToolError("The input string is not a valid JSON")
    version = data.field("version")
    if version is not None and version.integer() != VERSION:
        raise ToolError(f"Not supported version field value {version.integer()}")
    rows = data.field("partitions")
    if rows is None:
        raise ToolError("Missing partitions field")
    offsets: dict[TopicPartition, int] = {}
    repeated = []
    for row in rows.elements():
        partition = TopicPartition(
            row.required("topic").text(), row.required("partition").integer()
        )
        offset = row.required("offset").long()
        if partition in offsets:
            repeated.append(partition)
        offsets[partition] = offset
    if repeated:
        names = ",".join(map(partition_text, sorted(set(repeated))))
        raise ToolError(f"Offset json file contains duplicate topic partitions: {names}")
    return offsets


def delete_records(
    client: Client, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | KafkaError]:
    """The new log start offset of each partition, or why it has none; sorted by partition.

    offsets  the first offset that stays
    raises   ClientError
    """
    results: dict[TopicPartition, int | KafkaError] = {}

    def attempt() -> bool | None:
        for topic in sorted({partition.topic for partition in offsets}):
            left = [
                partition
                for partition in sorted(offsets)
                if partition.topic == topic and partition not in results
            ]
            try:
                leaders = leaders_of(client, left) if left else []
            except KafkaError as error:
                if error.code not in RETRIED:
                    results.update(dict.fromkeys(left, error))
                continue
            for connection, led in leaders:
                rows = {partition: offsets[partition] for partition in led}
                results.update(_delete_on_leader(connection, rows))
        return True if len(results) == len(offsets) else None

    if client.retry(attempt) is None:
        for partition in offsets:
            text = f"Timed out waiting for the leader of partition {partition_text(partition)}."
            results.setdefault(partition, timed_out(text))
    return {partition: results[partition] for partition in sorted(offsets)}


def _delete_on_leader(
    connection: BrokerConnection, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | KafkaError]:
    """Results by partition; partitions with a retriable error are left out."""
    topics: dict[str, list[DeleteRecordsPartition]] = {}
    for partition, offset in offsets.items():
        topics.setdefault(partition.topic, []).append(
            DeleteRecordsPartition(partition_index=partition.partition, offset=offset)
        )
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=name, partitions=rows) for name, rows in topics.items()],
        timeout_ms=TIMEOUT_MS,
    )
    response = connection.request(request, DeleteRecordsResponse)
    return {
        TopicPartition(topic.name, row.partition_index): (
            refused(row.error_code) if row.error_code else row.low_watermark
        )
        for topic in response.topics
        for row in topic.partitions
        if row.error_code not in RETRIED
    }
