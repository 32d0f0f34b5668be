"""`odradek broker-api-versions`: the flags and lines of `kafka-broker-api-versions.sh` 3.9.

Exit codes: 0 success, also when a broker cannot be reached (its line says so); 1 failure; 2 an
invalid command line.  The reason is on stderr.
Source: Kafka 3.9's BrokerApiVersionsCommand, NodeApiVersions and ApiKeys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.metadata import MetadataResponseBroker
from odradek.tools.client import Client, ClientError
from odradek.tools.options import CLIENT_FLAGS, Options
from odradek.tools.run_command import run_with_client

WHAT_IT_DOES: Final = "This tool helps to retrieve broker version information."
LATEST: Final[tuple[int, ...]] = (
    *(11, 17, 9, 12, 7, 4, 8, 3, 9, 9, 6, 9, 4, 5, 5, 5, 5, 1, 4, 7, 6, 2, 5, 4, 5, 4, 4, 1, 4),
    *(3, 3, 3, 4, 2, 2, 4, 2, 3, 3, 2, 2, 3, 2, 2, 1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 2, 3, 1, 0),
    *(1, 1, 0, 4, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
)
"""The newest version of each API, by key, that clients of Kafka 3.9.2 speak; the oldest is 0."""
OF_CONTROLLERS: Final = (52, 53, 54, 59, 62, 63, 70, 73, 82)
"""Keys of APIs that no broker serves, only the controllers of KRaft."""
RENAMED: Final[Mapping[int, str]] = {74: "ListClientMetricsResources"}
"""Names that Kafka 3.9 has in place of those of later releases."""
FLAGS: Final = CLIENT_FLAGS


def main(arguments: Sequence[str]) -> int:
    return run_with_client(arguments, WHAT_IT_DOES, _act, FLAGS)


def _act(client: Client, _: Options) -> None:
    for broker in sorted(client.metadata([]).brokers, key=lambda row: row.node_id):
        rack = "null" if broker.rack is None else broker.rack
        name = f"{broker.host}:{broker.port} (id: {broker.node_id} rack: {rack})"
        print(f"{name} -> {_versions(client, broker)}")


def _versions(client: Client, broker: MetadataResponseBroker) -> str:
    try:
        connection = client.connection(broker)
    except ClientError as error:
        return f"ERROR: {error}"
    return "(\n\t" + ",\n\t".join(rows(connection.api_versions)) + "\n)"


def name_of(key: int) -> str:
    """The name of an API in Kafka 3.9."""
    if key >= len(LATEST):
        return "UNKNOWN"
    return RENAMED.get(key) or ApiKey(key).camel_name


def rows(served: Mapping[int, tuple[int, int]]) -> Iterator[str]:
    """A text for each API that the broker serves, or that the brokers of Kafka 3.9 serve.

    served  key -> lowest and highest version
    """
    used = (key for key in range(len(LATEST)) if key not in OF_CONTROLLERS)
    for key in sorted({*served, *used}):
        is_defined = key < len(LATEST)
        name = f"{name_of(key)}({key})"
        if key not in served:
            yield f"{name}: UNSUPPORTED"
            continue
        lowest, highest = served[key]
        versions = f"{lowest}" if lowest == highest else f"{lowest} to {highest}"
        if not is_defined:
            yield f"{name}: {versions}"
        elif LATEST[key] < lowest:
            yield f"{name}: {versions} [unusable: node too new]"
        else:
            yield f"{name}: {versions} [usable: {min(LATEST[key], highest)}]"
