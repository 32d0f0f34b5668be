"""`odradek leader-election`: the flags, lines and exit codes of `kafka-leader-election.sh` 3.9.

Exit codes: 0 success; 1 failure; 2 an invalid command line.  The reason is on stderr.
Source: Kafka 3.9's LeaderElectionCommand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from odradek.protocol.topic_partition import TopicPartition, by_topic
from odradek.tools import options as command_line
from odradek.tools.client import Client
from odradek.tools.client_config import open_client
from odradek.tools.errors import KafkaError, ToolError, partition_text, refused
from odradek.tools.json_files import JsonReader, read_json
from odradek.tools.options import Options, OptionsError, read_flags
from odradek.tools.run_command import run_command

WHAT_IT_DOES: Final = (
    "This tool attempts to elect a new leader for a set of topic partitions. The type of elections "
    "supported are preferred replicas and unclean replicas."
)
TIMEOUT_MS: Final = 15_000
"""Half of 30 s, as in Kafka's tool."""
ELECTION_TYPES: Final = ("PREFERRED", "UNCLEAN")
"""At the position of their number in the protocol."""
SCOPES: Final = ("topic", "all-topic-partitions", "path-to-json-file")

FLAGS: Final = (
    command_line.BOOTSTRAP_SERVER,
    *command_line.HELP_FLAGS,
    *read_flags("leader-election"),
)


def parse_options(arguments: Sequence[str]) -> Options:
    options = command_line.parse(FLAGS, arguments, WHAT_IT_DOES)
    missing = [name for name in ("bootstrap-server", "election-type") if not options.has(name)]
    if missing:
        raise OptionsError(f"Missing required option(s): {', '.join(missing)}")
    if sum(options.has(scope) for scope in SCOPES) != 1:
        raise OptionsError(
            f"One and only one of the following options is required: {', '.join(SCOPES)}"
        )
    if options.has("topic") and not options.has("partition"):
        raise OptionsError("Missing required option(s): partition")
    if not options.has("topic") and options.has("partition"):
        raise OptionsError("Option partition is only allowed if topic is used")
    return options


def main(arguments: Sequence[str]) -> int:
    return run_command(arguments, FLAGS, parse_options, _act)


def _act(options: Options) -> int:
    election_type = _election_type(options)
    partitions = _partitions(options)
    bootstrap = options.required("bootstrap-server")
    with open_client(bootstrap, options.value("admin.config")) as client:
        elect(client, election_type, partitions)
    return 0


def _election_type(options: Options) -> int:
    text = options.value("election-type") or ""
    if text.upper() not in ELECTION_TYPES:
        raise OptionsError(f"Cannot parse argument '{text}' of option election-type")
    return ELECTION_TYPES.index(text.upper())


def _partitions(options: Options) -> list[TopicPartition] | None:
    """The partitions to elect leaders of; None: every partition that needs it."""
    path = options.value("path-to-json-file")
    if path is not None:
        return parse_partitions(read_json(path))
    topic, partition = options.value("topic"), options.number("partition")
    return None if topic is None or partition is None else [TopicPartition(topic, partition)]


def parse_partitions(data: JsonReader | None) -> list[TopicPartition]:
    """The partitions of a file.

    data    None when the file is empty
    raises  ToolError
    """
    if data is None:
        raise ToolError("Replica election data is empty")
    rows = data.field("partitions")
    if rows is None:
        raise ToolError('Replica election data is missing "partitions" field')
    partitions = [
        TopicPartition(row.required("topic").text(), row.required("partition").integer())
        for row in rows.elements()
    ]
    repeated = sorted({partition for partition in partitions if partitions.count(partition) > 1})
    if repeated:
        names = ", ".join(map(partition_text, repeated))
        raise ToolError(f"Replica election data contains duplicate partitions: [{names}]")
    return sorted(partitions)


def elect(client: Client, election_type: int, partitions: Sequence[TopicPartition] | None) -> None:
    """Elect leaders and print the results.

    partitions  None: every partition that needs it
    raises      ToolError
    """
    errors = _request_election(client, election_type, partitions)
    kind = ELECTION_TYPES[election_type]
    failed: list[tuple[TopicPartition, KafkaError]] = []
    elected, unchanged = [], []
    for partition in sorted(errors):
        error = errors[partition]
        if error is None:
            elected.append(partition_text(partition))
        elif error.code == ErrorCode.ELECTION_NOT_NEEDED:
            unchanged.append(partition_text(partition))
        else:
            failed.append((partition, error))
    if elected:
        names = ", ".join(elected)
        print(f"Successfully completed leader election ({kind}) for partitions {names}")
    if unchanged:
        print(f"Valid replica already elected for partitions {', '.join(unchanged)}")
    for partition, error in failed:
        name = partition_text(partition)
        print(f"Error completing leader election ({kind}) for partition: {name}: {error}")
    if failed:
        raise ToolError(f"{len(failed)} replica(s) could not be elected")


def elect_preferred(client: Client, partitions: Sequence[TopicPartition]) -> None:
    """Elect the preferred leaders of partitions; those that lead already are left.

    raises  ToolError for the first that cannot be elected, ClientError
    """
    errors = _request_election(client, ELECTION_TYPES.index("PREFERRED"), partitions)
    for partition in sorted(errors):
        error = errors[partition]
        if error is not None and error.code != ErrorCode.ELECTION_NOT_NEEDED:
            raise ToolError(f"leader of {partition_text(partition)}: {error}")


def _request_election(
    client: Client, election_type: int, partitions: Sequence[TopicPartition] | None
) -> dict[TopicPartition, KafkaError | None]:
    """The error of each election, None for a leader that was elected.

    partitions  None: every partition that needs it
    raises      ToolError
    """
    request = ElectLeadersRequest(
        election_type=election_type,
        topic_partitions=None
        if partitions is None
        else [
            TopicPartitions(topic=name, partitions=indexes)
            for name, indexes in by_topic(partitions).items()
        ],
        timeout_ms=TIMEOUT_MS,
    )
    response = client.controller(request, ElectLeadersResponse)
    if response.error_code:
        _fail(response.error_code)
    return {
        TopicPartition(topic.topic, result.partition_id): (
            refused(result.error_code, result.error_message) if result.error_code else None
        )
        for topic in response.replica_election_results
        for result in topic.partition_result
    }


def _fail(code: int) -> None:
    """Print and raise what Kafka's tool says of an election that failed as a whole."""
    text = {
        ErrorCode.REQUEST_TIMED_OUT: "Timeout waiting for election results",
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Not authorized to perform leader election",
    }.get(ErrorCode(code) if code in list(ErrorCode) else ErrorCode.UNKNOWN_SERVER_ERROR)
    if text is None:
        raise refused(code)
    print(text)
    raise ToolError(text)
