"""`odradek client-metrics`: the flags, lines and exit codes of `kafka-client-metrics.sh` 3.9.

The resources are those of a KRaft cluster (KIP-714).  A broker in ZooKeeper mode has none, and its
reason is printed.

Exit codes: 0 success; 1 failure (a line on stdout gives the reason), or a combination of options
that is refused; 2 another invalid command line.
Source: Kafka 3.9's ClientMetricsCommand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from odradek.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from odradek.tools import options as command_line
from odradek.tools.client import Client, NotServedError
from odradek.tools.configs.resources import METRICS_SUBSCRIPTION, Resource, alter, describe
from odradek.tools.errors import KafkaError, ToolError, check, error_name
from odradek.tools.options import Options, action_of, exclude, java_integer, read_flags
from odradek.tools.run_command import client_of, run_command

WHAT_IT_DOES: Final = (
    "This tool describes and alters the subscriptions of a cluster to the metrics of its clients."
)
ACTIONS: Final = ("alter", "delete", "describe", "list")
CONFIGS: Final = {"interval": "interval.ms", "metrics": "metrics", "match": "match"}
"""Option -> config."""
NOT_WITH: Final = {
    "delete": ("generate-name", "interval", "match", "metrics"),
    "describe": ("generate-name", "interval", "match", "metrics"),
    "list": ("name", "generate-name", "interval", "match", "metrics"),
}
NOT_LISTED: Final = "The node does not support LIST_CLIENT_METRICS_RESOURCES"

FLAGS: Final = (*command_line.CLIENT_FLAGS, *read_flags("client-metrics"))


def parse_options(arguments: Sequence[str]) -> Options:
    """Parse and check the command line.

    raises  OptionsError; HelpRequested for --help; ToolError for a combination without a meaning
    """
    options = command_line.parse(FLAGS, arguments, WHAT_IT_DOES)
    action = action_of(options, ACTIONS, "--alter, --delete, --describe or --list.")
    if not options.has("bootstrap-server"):
        raise ToolError("--bootstrap-server must be specified.")
    exclude(options, action, NOT_WITH.get(action, ()))
    if action == "alter" and options.has("name") == options.has("generate-name"):
        raise ToolError("One of --name or --generate-name must be specified with --alter.")
    if action == "delete" and not options.has("name"):
        raise ToolError("A client metrics resource name must be specified with --delete.")
    interval = options.value("interval")
    if interval and java_integer(interval) is None:
        message = "Invalid interval value. Enter an integer, or leave empty to reset."
        raise ToolError(message)
    return options


def main(arguments: Sequence[str]) -> int:
    return run_command(arguments, FLAGS, parse_options, _act)


def _act(options: Options) -> int:
    with client_of(options) as client:
        try:
            if options.has("alter"):
                _alter(client, options)
            elif options.has("delete"):
                _delete(client, options.value("name") or "")
            elif options.has("describe"):
                _describe(client, options.value("name"))
            else:
                print("\n".join(_names(client)))
        except ToolError as error:
            text = str(error)
            if isinstance(error, KafkaError):
                text = text.removeprefix(f"{error_name(error.code)}: ")
            print(f"Error while executing client metrics command : {text}")
            return 1
    return 0


def _alter(client: Client, options: Options) -> None:
    name = options.value("name")
    if name is None:
        from odradek.tools.storage import random_uuid

        name = random_uuid()
    values = {
        config: ",".join(options.values(option))
        for option, config in CONFIGS.items()
        if options.has(option)
    }
    added = {config: value for config, value in values.items() if value}
    deleted = [config for config, value in values.items() if not value]
    alter(client, Resource(METRICS_SUBSCRIPTION, name), added, deleted)
    print(f"Altered client metrics config for {name}.")


def _delete(client: Client, name: str) -> None:
    resource = Resource(METRICS_SUBSCRIPTION, name)
    alter(client, resource, {}, [entry.name for entry in describe(client, resource, every=True)])
    print(f"Deleted client metrics config for {name}.")


def _describe(client: Client, name: str | None) -> None:
    for resource_name in _names(client) if name is None else [name]:
        print(f"Client metrics configs for {resource_name} are:")
        for entry in describe(client, Resource(METRICS_SUBSCRIPTION, resource_name), every=True):
            print(f"  {entry.name}={'null' if entry.value is None else entry.value}")


def _names(client: Client) -> list[str]:
    """The resources, sorted.

    raises  ToolError
    """
    request = ListConfigResourcesRequest(resource_types=[METRICS_SUBSCRIPTION])
    try:
        response = client.any_broker(request, ListConfigResourcesResponse)
    except NotServedError as error:
        raise ToolError(NOT_LISTED) from error
    check(response)
    return sorted(resource.resource_name for resource in response.config_resources)
