from __future__ import annotations

import re

import pytest

from odradek.tools.options import OptionsError, help_text
from odradek.tools.run import KAFKA_VERSION
from odradek.tools.topics.options import ACTIONS, ALLOWED_WITH, FLAGS, REPORTS, parse_options

AT = ["--bootstrap-server", "127.0.0.1:9092"]
VALUES = {flag.name: [] if flag.value is None else ["1"] for flag in FLAGS}
KAFKA_FLAGS = [
    "alter",
    "at-min-isr-partitions",
    "bootstrap-server",
    "command-config",
    "config",
    "create",
    "delete",
    "delete-config",
    "describe",
    "exclude-internal",
    "help",
    "if-exists",
    "if-not-exists",
    "list",
    "partition-size-limit-per-response",
    "partitions",
    "replica-assignment",
    "replication-factor",
    "topic",
    "topic-id",
    "topics-with-overrides",
    "unavailable-partitions",
    "under-min-isr-partitions",
    "under-replicated-partitions",
    "version",
]


def words_of(*names: str) -> list[str]:
    """A command line of these options."""
    return AT + [word for name in names for word in [f"--{name}", *VALUES[name]]]


def refusal(*words: str) -> str:
    with pytest.raises(OptionsError) as raised:
        parse_options(words)
    return str(raised.value)


def test_flags_are_those_of_kafka_and_zookeeper() -> None:
    assert sorted(flag.name for flag in FLAGS) == sorted([*KAFKA_FLAGS, "zookeeper"])


def test_help_names_every_flag() -> None:
    shown = re.findall(r"^--([\w-]+)", help_text(FLAGS), re.MULTILINE)
    assert shown == sorted(flag.name for flag in FLAGS)


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize(("name", "allowed"), ALLOWED_WITH)
def test_option_with_another_action_is_an_error(
    action: str, name: str, allowed: tuple[str, ...]
) -> None:
    if name == "delete-config" or (action, name) == ("alter", "config"):
        return
    needed = [] if name == "partitions" or action != "alter" else ["partitions"]
    words = words_of(action, "topic", *needed, name)
    if action in allowed:
        assert parse_options(words).has(name)
    else:
        expected = f'Option "[{name}]" can\'t be used with option "[{action}]"'
        assert refusal(*words) == expected


@pytest.mark.parametrize("action", ACTIONS)
def test_altering_or_deleting_configs_is_an_error(action: str) -> None:
    names = [action, "topic", *(["partitions"] if action == "alter" else [])]
    other = "bootstrap-server" if action == "alter" else action
    assert refusal(*words_of(*names, "delete-config")) == (
        f'Option "[delete-config]" can\'t be used with option "[{other}]"'
    )
    if action == "alter":
        assert refusal(*words_of(*names, "config")).startswith("Option combination")
        old = ["--zookeeper", "z:2181", *words_of(*names, "config")[2:]]
        assert refusal(*old).startswith("Option combination")


@pytest.mark.parametrize("report", REPORTS)
def test_reports_can_be_combined_but_not_with_overrides(report: str) -> None:
    assert parse_options(words_of("describe", *REPORTS)).has(report)
    assert refusal(*words_of("describe", report, "topics-with-overrides")) == (
        f'Option "[{report}]" can\'t be used with option "[topics-with-overrides]"'
    )


def test_command_without_exactly_one_action_is_an_error() -> None:
    message = (
        "Command must include exactly one action: --list, --describe, --create, --alter or --delete"
    )
    assert refusal(*AT) == message
    assert refusal(*AT, "--list", "--describe") == message


@pytest.mark.parametrize("action", ["create", "alter", "delete"])
def test_change_without_a_topic_is_an_error(action: str) -> None:
    assert refusal(*AT, f"--{action}") == 'Missing required argument "[topic]"'


def test_alter_without_partitions_is_an_error() -> None:
    assert refusal(*words_of("alter", "topic")) == 'Missing required argument "[partitions]"'


def test_command_without_exactly_one_connection_is_an_error() -> None:
    assert refusal("--list") == "--bootstrap-server must be specified"
    assert parse_options(["--list", "--zookeeper", "z:2181"]).value("zookeeper") == "z:2181"
    assert refusal("--list", *AT, "--zookeeper", "z:2181") == (
        "Only one of --bootstrap-server or --zookeeper must be specified"
    )


def test_assignment_with_numbers_is_an_error_unless_partitions_are_added() -> None:
    for other in ("partitions", "replication-factor"):
        assert refusal(*words_of("create", "topic", "replica-assignment", other)) == (
            f'Option "[replica-assignment]" can\'t be used with option "[{other}]"'
        )
    parse_options(words_of("alter", "topic", "replica-assignment", "partitions"))


def test_help_precedes_all_checks_but_that_of_unknown_flags() -> None:
    assert refusal() == "Create, delete, describe, or change a topic."
    expected = "This tool helps to create, delete, describe, or change a topic."
    assert refusal("--help") == expected
    assert refusal("--version", "--help", "--create") == expected
    assert refusal("--bogus", "--help") == "bogus is not a recognized option"
    assert refusal("--version") == KAFKA_VERSION
