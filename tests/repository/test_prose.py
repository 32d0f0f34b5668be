"""Words that a reader of Kafka's documentation would not expect, and text that must not be here."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from tests.repository.sources import ROOT, Source, everything, sources, tracked

THIS_FILE: Final = "tests/repository/test_prose.py"
"""It names what it forbids."""
WORDS: Final = (
    *("wish", "wishes", "told", "whoever", "nobody", "somebody", "anew", "lies", "door", "doors"),
    *("room", "rooms", "house", "picture", "pictures", "obey", "obeys", "office", "holder"),
    *("holders", "edge", "edges", "draft", "drafts", "beat", "beats", "hunger", "gentle"),
    *("hurried", "complain", "complains", "lives"),
)
"""Private imagery and translated idioms; CONTRIBUTING.md says what stands instead."""
_WHOLE: Final = "|".join(sorted(WORDS, key=len, reverse=True))
_CAPITAL: Final = "|".join(word.capitalize() for word in sorted(WORDS, key=len, reverse=True))
FORBIDDEN: Final = re.compile(
    rf"(?<![A-Za-z])(?i:{_WHOLE})(?![A-Za-z])|(?<=[a-z])(?:{_CAPITAL})(?![a-z])"
)
"""A whole word, also between underscores and within CamelCase."""
SUFFIXES: Final = (
    *(".py", ".md", ".properties", ".toml", ".sh", "Makefile"),
    *(".java", ".go", ".js", ".c", ".h"),
)
NOT_YET: Final[dict[str, int]] = {
    "ARCHITECTURE.md": 7,
    "CONTRIBUTING.md": 1,
    "NOT_DONE.md": 4,
    "README.md": 2,
    "bench": 5,
    "bench/targets": 1,
    "broker": 17,
    "broker/compaction": 17,
    "broker/group": 538,
    "broker/handlers": 39,
    "broker/node": 19,
    "broker/replication": 79,
    "broker/server": 43,
    "broker/settings": 25,
    "config": 3,
    "controller": 131,
    "controller/active": 103,
    "controller/coordination": 13,
    "controller/decide": 52,
    "controller/membership": 9,
    "controller/znodes": 27,
    "odradek/tools": 79,
    "pipeline": 24,
    "pipeline/demo": 7,
    "pipeline/jobs": 16,
    "pipeline/mirror": 28,
    "pipeline/spec": 3,
    "pipeline/transforms": 4,
    "protocol": 7,
    "protocol/messages": 6,
    "protocol/records": 10,
    "protocol/stored": 3,
    "runtime": 8,
    "storage": 4,
    "storage/checkpoints": 2,
    "storage/compaction": 54,
    "storage/directories": 8,
    "storage/files": 23,
    "storage/indexes": 2,
    "storage/log": 14,
    "storage/producers": 5,
    "tests": 2,
    "tests/attack": 10,
    "tests/broker": 406,
    "tests/clients": 63,
    "tests/controller": 149,
    "tests/golden": 5,
    "tests/odradek": 55,
    "tests/pipeline": 102,
    "tests/protocol": 17,
    "tests/runtime": 7,
    "tests/scripts": 218,
    "tests/storage": 800,
    "tests/support": 31,
}
"""Folder -> how many of the words it may have until it is rewritten."""


def folder_of(name: str) -> str:
    """Two levels of folders, one level, or the file."""
    parts = name.split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def forbidden_words(file: Source) -> list[str]:
    """`path:line: word` of each."""
    return [
        f"{file.name}:{number}: {match[0]}"
        for number, line in enumerate(file.text.splitlines(), 1)
        for match in FORBIDDEN.finditer(line)
    ]


def test_forbidden_words_do_not_occur() -> None:
    found = {
        file.name: forbidden_words(file) for file in sources(*SUFFIXES) if file.name != THIS_FILE
    }
    counts = Counter[str]()
    for name, words in found.items():
        counts[folder_of(name)] += len(words)
    too_many = {folder for folder, count in counts.items() if count > NOT_YET.get(folder, 0)}
    offenders = [
        line for name, words in found.items() if folder_of(name) in too_many for line in words
    ]
    assert not offenders, "\n".join(offenders)


def test_forbidden_words_are_found_in_names_and_sentences() -> None:
    given = ("told, as", "_nobody_", "BigDoor", "Wish", "heartbeat", "edged", "Households")
    assert [bool(FORBIDDEN.search(text)) for text in given] == [True] * 4 + [False] * 3


def test_comments_leave_nothing_for_later() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    offenders = [
        file.name for file in everything() if file.name != THIS_FILE and marks.search(file.text)
    ]
    assert not offenders


def test_no_committed_file_names_a_machine() -> None:
    marks = ["/work/", "/root/", "pypi.org", "registry.npmjs.org"]
    marks += ["repo.maven.apache.org", "proxy.golang.org"]
    offenders = [
        f"{name}: {mark}"
        for name in tracked()
        if name != THIS_FILE
        for content in [(ROOT / name).read_bytes().decode("utf-8", "replace")]
        for mark in marks
        if mark in content
    ]
    assert not offenders
