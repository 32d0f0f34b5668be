"""`odradek acls`: the flags, lines and exit codes of `kafka-acls.sh` 3.9.

Exit codes: 0 success; 1 failure; 2 an invalid command line.
Differs from Kafka: --authorizer and --authorizer-properties, which write znodes, are not supported.
Source: Kafka 3.9's AclCommand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from odradek.tools import options as command_line
from odradek.tools.acls.bindings import (
    SPECIFIC,
    AclPattern,
    AclRule,
    pattern_type,
    patterns,
    principals,
    rules_by_pattern,
)
from odradek.tools.acls.queries import create_acls, delete_acls, describe_acls
from odradek.tools.client import Client
from odradek.tools.errors import ToolError
from odradek.tools.options import BOOTSTRAP_SERVER, HELP_FLAGS, Options, OptionsError, read_flags
from odradek.tools.run_command import client_of, run_command

WHAT_IT_DOES: Final = "This tool helps to manage acls on kafka."
ACTIONS: Final = ("add", "remove", "list")
FLAGS: Final = (BOOTSTRAP_SERVER, *HELP_FLAGS, *read_flags("acls"))
_EXCLUDED: Final = (
    (
        "list",
        ("producer", "consumer", "allow-host", "allow-principal", "deny-host", "deny-principal"),
    ),
    ("producer", ("operation", "deny-principal", "deny-host")),
    ("consumer", ("operation", "deny-principal", "deny-host")),
)


def main(arguments: Sequence[str]) -> int:
    return run_command(arguments, FLAGS, parse_options, _run)


def parse_options(arguments: Sequence[str]) -> Options:
    options = command_line.parse(FLAGS, arguments, WHAT_IT_DOES)
    if (problem := _problem(options)) is not None:
        raise OptionsError(problem, shows_help=True)
    return options


def _problem(options: Options) -> str | None:
    if not options.has("bootstrap-server"):
        return "Only --bootstrap-server is supported by this tool"
    if options.has("bootstrap-controller"):
        return "Only one of --bootstrap-server or --bootstrap-controller must be specified"
    if options.has("authorizer"):
        return "Only one of --bootstrap-server or --authorizer must be specified"
    if sum(options.has(action) for action in ACTIONS) != 1:
        return "Command must include exactly one action: --list, --add, --remove. "
    for name, excluded in _EXCLUDED:
        for other in excluded:
            if options.has(name) and options.has(other):
                return f'Option "[{name}]" can\'t be used with option "[{other}]"'
    if options.has("principal") and not options.has("list"):
        return "The --principal option is only available if --list is set"
    if options.has("producer") and not options.has("topic"):
        return "With --producer you must specify a --topic"
    if options.has("idempotent") and not options.has("producer"):
        return "The --idempotent option is only available if --producer is set"
    return _problem_of_consumer(options)


def _problem_of_consumer(options: Options) -> str | None:
    others = options.has("cluster") or options.has("transactional-id")
    is_complete = options.has("topic") and options.has("group")
    if options.has("consumer") and (not is_complete or (others and not options.has("producer"))):
        return (
            "With --consumer you must specify a --topic and a --group and no --cluster or "
            "--transactional-id option should be specified."
        )
    return None


def _run(options: Options) -> int:
    try:
        with client_of(options) as client:
            if options.has("add"):
                _add(client, options)
            elif options.has("remove"):
                _remove(client, options)
            else:
                _list(client, options)
    except ToolError as error:
        print(f"Error while executing ACL command: {error}")
        return 1
    return 0


def _add(client: Client, options: Options) -> None:
    kind = pattern_type(options)
    if kind not in SPECIFIC:
        raise OptionsError(
            f"A '--resource-pattern-type' value of '{kind}' is not valid when adding acls.",
            shows_help=True,
        )
    chosen = rules_by_pattern(options)
    if not all(chosen.values()):
        raise OptionsError(
            "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs.",
            shows_help=True,
        )
    for pattern, rules in chosen.items():
        print(f"Adding ACLs for resource `{pattern}`: \n {_lines(rules)} \n")
        create_acls(client, pattern, rules)


def _lines(rules: Sequence[AclRule]) -> str:
    return "\n".join(f"\t{rule}" for rule in rules)


def _remove(client: Client, options: Options) -> None:
    for pattern, rules in rules_by_pattern(options).items():
        question = f"delete all ACLs for resource filter `{pattern}`?"
        if rules:
            listed = _lines(rules)
            question = f"remove ACLs: \n {listed} \n from resource filter `{pattern}`?"
        if options.has("force") or _is_confirmed(f"Are you sure you want to {question} (y/n)"):
            delete_acls(client, pattern, rules)


def _is_confirmed(question: str) -> bool:
    print(question)
    try:
        return input().lower() == "y"
    except EOFError:
        return False


def _list(client: Client, options: Options) -> None:
    listed: dict[AclPattern, list[AclRule]] = {}
    chosen: list[AclPattern | None] = [*patterns(options)]
    for pattern in chosen or [None]:
        listed |= describe_acls(client, pattern)
    if not options.has("principal"):
        _print_listed(listed)
        return
    for principal in principals(options, "principal"):
        print(f"ACLs for principal `{principal}`")
        own = {
            pattern: [rule for rule in rules if rule.principal == principal]
            for pattern, rules in listed.items()
        }
        _print_listed({pattern: rules for pattern, rules in own.items() if rules})


def _print_listed(listed: dict[AclPattern, list[AclRule]]) -> None:
    for pattern in sorted(listed):
        print(f"Current ACLs for resource `{pattern}`: \n {_lines(listed[pattern])} \n")
