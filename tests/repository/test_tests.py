"""What tests do not do."""

from __future__ import annotations

import re
from typing import Final

from tests.repository.sources import Function, python

POLLS: Final = {
    "tests/clients/zombie.py",
    "tests/cluster/copier.py",
    "tests/odradek/cluster_tools.py",
    "tests/scripts/controller_writes.py",
    "tests/scripts/talk.py",
    "tests/security/client_logins.py",
    "tests/support/broker_cluster.py",
    "tests/support/features.py",
}
"""They wait for another process to settle, which reports nothing when it has, or are programs that
send again after a pause."""
LEAVES_OUT: Final = re.compile(r"(mark|pytest)\.(skip|xfail)|import(or)skip")
SLEEPS: Final = re.compile(
    r"\btime\.sleep\(|asyncio\.sleep\([^0)]|^from (?:time|asyncio) import .*\bsleep\b", re.M
)

NOT_IN_NAMES: Final = re.compile(r"_(who|answers?|answered|tells?|everybody)(_|$)")
"""A name states a condition of a named subject and its result; a response is not an answer."""


def test_no_test_is_skipped() -> None:
    assert not [file.name for file in python("tests") if LEAVES_OUT.search(file.text)]


def test_no_test_sleeps() -> None:
    offenders = [
        file.name for file in python("tests") if file.name not in POLLS and SLEEPS.search(file.text)
    ]
    assert not offenders


def test_names_of_tests_name_their_subject() -> None:
    offenders = [
        f"{file.name}: {node.name}"
        for file in python("tests")
        for node in file.nodes
        if isinstance(node, Function) and node.name.startswith("test_")
        if NOT_IN_NAMES.search(node.name)
    ]
    assert not offenders


def test_assertions_are_on() -> None:
    assert __debug__
