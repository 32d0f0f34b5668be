"""A part owns its state: nothing else writes its fields.

Fields are compared by name: one that has the name of a field in the same file, or of a field of
`OF_ALL`, is not found.

Tests, benchmarks and generators of documents may write public fields: those of the doubles and
records in tests/ are made to be set (`files.capacity_bytes = 0`, `world.counts[kind] += 1`), and
`config` of a log is a property.  Private fields are not theirs to write either.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from typing import Final

from tests.repository.sources import CHECKS, PRODUCT, Source, python

OF_CONTAINERS: Final = (
    *("appendleft", "discard", "extend", "insert", "pop", "popitem", "popleft", "setdefault"),
)
"""Methods that change a list, dict, set or deque; the names of others (`append`, `clear`) are those
of methods of owners, too."""

OF_ALL: Final = (
    "protocol/messages/",  # requests and responses, which are filled in step by step
    "protocol/stored/",
    "broker/handlers/shared/handler.py",  # results of a handler, which the server empties after use
    "controller/coordination/server/four_letter_words.py",  # counters
    "broker/server/request_times.py",  # counters
    "runtime/metrics.py",
    "storage/checking/findings.py",  # the verdict that checks write together
)
"""Fields that are declared here are data, not the state of a part."""

ALLOWED: Final = {
    "odradek/testing/node/faults/dispatch.py": "request",  # a fault replaces a part of it
    "broker/group/consumer/subscription_regex.py": "log_errors max_mem",  # of a library
    "broker/node/dynamic_configs.py": "config",  # a property of Log, which `Head.configure` applies
    "broker/node/process.py": "dont_write_bytecode",  # of the interpreter
    "broker/server/dispatch.py": "header request",  # a call, on its way from bytes to an outcome
    "broker/server/outcomes.py": "request under_way waiting",
    "broker/server/socket_server.py": "descriptors_max",
    "broker/server/timed_call.py": "times",  # of a connection: what it counts next
    "odradek/testing/node/control/node.py": "loop",  # a test's clock in place of the machine's
    "broker/security/tls/contexts.py": (  # of `ssl`
        "check_hostname maximum_version minimum_version options verify_flags verify_mode"
    ),
    "odradek/launcher.py": "argv",  # of the interpreter
    "odradek/pytest_plugin.py": "stash",  # of pytest
    "odradek/completion.py": "complete",  # by which shtab knows what to complete
    "odradek/tools/security/client_security.py": (
        "check_hostname maximum_version minimum_version"  # of `ssl`
    ),
    "odradek/tools/snapshot.py": "size",  # of `tarfile`
    "odradek/web_console/records/query.py": "log_errors",  # of re2
    "pipeline/spark/java.py": "_gateway _jvm",  # of pyspark, which has no function that sets them
    "pipeline/jobs/sharing.py": "__cause__",
    "pipeline/registry/reading.py": "__annotations__",  # by which pyspark knows a function's types
    "pipeline/registry/writing.py": "__annotations__",
    "pipeline/spark/session.py": "environ",
    "pipeline/transforms/python.py": "__annotations__",
    "protocol/api_keys.py": "_value_",  # by which `enum` finds a member
    "protocol/schema.py": "__qualname__",
    "runtime/repeated_lines.py": "args msg",  # of `logging`
    "runtime/scheduler.py": "__qualname__",
    "runtime/testing/memory_files.py": "modified_ms",  # of its nodes, in a file beside it
    "storage/log/time_lookup.py": "__traceback__",
    "storage/segments/segment.py": "was_used",  # a call would take 3 % of an append
    "tests/broker/compaction/test_compaction.py": "_command",  # the worker is mended in between
    "tests/controller/requests/test_control_request_receiver.py": "_session",  # its reads fail
    "tests/protocol/test_against_kafka_python.py": "_header",  # of kafka-python
    "tests/runtime/test_loop_watch.py": "_logged_at_ns",  # instead of a wait of ten seconds
    "tests/sim/loop.py": "_log_destroy_pending",  # of asyncio
    "tests/support/node_here.py": "_run",  # of asyncio, to time its callbacks
}
"""File -> fields of others that it writes, with the reason."""


def _targets(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Assign | ast.Delete):
        yield from node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For):
        yield node.target
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in OF_CONTAINERS
    ):
        yield node.func.value


def _written(node: ast.AST) -> Iterator[ast.Attribute]:
    """The attributes that a statement or a call assigns, deletes or changes an item of."""
    stack = list(_targets(node))
    while stack:
        target = stack.pop()
        while isinstance(target, ast.Subscript):
            target = target.value
        if isinstance(target, ast.Tuple | ast.List):
            stack += target.elts
        elif isinstance(target, ast.Attribute):
            yield target


def _is_own(written: ast.Attribute) -> bool:
    return isinstance(written.value, ast.Name) and written.value.id in ("self", "cls")


@cache
def _writes(file: Source) -> tuple[ast.Attribute, ...]:
    return tuple(
        written
        for node in file.nodes
        if isinstance(node, ast.stmt | ast.Call)
        for written in _written(node)
    )


@cache
def _declared(file: Source) -> frozenset[str]:
    """The fields of the classes in a file: whatever is there may write them."""
    fields = [written.attr for written in _writes(file) if _is_own(written)]
    for node in file.nodes:
        if isinstance(node, ast.ClassDef):
            fields += (
                node_of_class.target.id
                for node_of_class in node.body
                if isinstance(node_of_class, ast.AnnAssign)
                and isinstance(node_of_class.target, ast.Name)
            )
    return frozenset(fields)


def _foreign(file: Source, data: frozenset[str]) -> Iterator[tuple[int, str]]:
    """(line, field) of each write to a field that no class in the file declares."""
    declared = _declared(file) | data
    for written in _writes(file):
        if not _is_own(written) and written.attr not in declared:
            yield written.lineno, written.attr


def test_fields_are_written_in_the_file_of_their_class() -> None:
    files = python(*PRODUCT, *CHECKS)
    data = frozenset().union(*(_declared(file) for file in files if file.is_in(*OF_ALL)))
    offenders: list[str] = []
    unused = {(name, field) for name, fields in ALLOWED.items() for field in fields.split()}
    for file in files:
        is_product = file.name.split("/")[0] in PRODUCT
        for line, field in _foreign(file, data):
            if not is_product and not field.startswith("_"):
                continue
            if field in ALLOWED.get(file.name, "").split():
                unused.discard((file.name, field))
            else:
                offenders.append(f"{file.name}:{line}: {field}")
    assert not offenders, "call a method of the owner:\n" + "\n".join(offenders)
    assert not unused, "nothing writes these any more"


def test_writes_of_items_and_in_tuples_are_found() -> None:
    statements = """
self.own = 1
other.whole = other.counted[0] = 1
a, (b.in_tuple, self.c.d) = found
x.y.added += 1
del here.removed["key"]
for one.each in found: pass
where.taken.pop("key", None)
own.setdefault("key", 1)
"""
    writes = [
        written.attr
        for node in ast.walk(ast.parse(statements))
        for written in _written(node)
        if not _is_own(written)
    ]
    assert sorted(writes) == [
        *("added", "counted", "d", "each", "in_tuple", "removed", "taken", "whole")
    ]
