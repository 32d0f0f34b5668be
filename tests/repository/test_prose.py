"""Words that a reader of Kafka's documentation would not expect, and text that must not be here."""

from __future__ import annotations

import re
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
ANSWER: Final = re.compile(r"(?<![a-z])answers?(?![a-z])|Answers?(?![a-z])|ANSWERS?(?![A-Z])")
"""A response has no other name; to be answered is allowed."""
NEEDS_THE_LINE_ABOVE: Final = re.compile(r'^\s*r?"""(?:Of|As|The same|Those|Likewise)\b', re.M)
"""How a docstring begins that cannot be read alone."""
READ_ALONE: Final = (
    *("broker/coordinator_log/", "broker/group/", "broker/interbroker/", "broker/transaction/"),
    *("controller/active/", "controller/decide/", "controller/coordination/", "controller/znodes/"),
)
"""Folders whose docstrings can all be read alone."""
NAMES_OF_TESTS: Final = "tests/repository/test_tests.py"
"""It forbids the word, too."""
SUFFIXES: Final = (
    *(".py", ".md", ".properties", ".toml", ".sh", "Makefile", "Dockerfile", ".yml", ".yaml"),
    *(".java", ".go", ".js", ".c", ".h", ".svg", ".cfg", ".service", ".xml"),
)


def forbidden_words(file: Source) -> list[str]:
    """`path:line: word` of each; line 0 is the path."""
    return [
        f"{file.name}:{number}: {match[0]}"
        for number, line in enumerate((file.name, *file.text.splitlines()))
        for match in FORBIDDEN.finditer(line)
    ]


def test_forbidden_words_do_not_occur() -> None:
    offenders = [
        line
        for file in sources(*SUFFIXES)
        if file.name != THIS_FILE
        for line in forbidden_words(file)
    ]
    assert not offenders, "\n".join(offenders)


def test_responses_are_called_so() -> None:
    offenders = [
        f"{file.name}:{number}"
        for file in sources(*SUFFIXES)
        if file.name not in (THIS_FILE, NAMES_OF_TESTS)
        for number, line in enumerate(file.text.splitlines(), 1)
        if ANSWER.search(line)
    ]
    assert not offenders, "response, respond:\n" + "\n".join(offenders)


def test_forbidden_words_are_found_in_names_and_sentences() -> None:
    given = ("told, as", "_nobody_", "BigDoor", "Wish", "heartbeat", "edged", "Households")
    assert [bool(FORBIDDEN.search(text)) for text in given] == [True] * 4 + [False] * 3


def test_docstrings_can_be_read_alone() -> None:
    offenders = [
        f"{file.name}: {match[0].strip()}"
        for file in sources(".py")
        if file.name.startswith(READ_ALONE)
        for match in NEEDS_THE_LINE_ABOVE.finditer(file.text)
    ]
    assert not offenders, "\n".join(offenders)


def test_beginnings_that_need_the_line_above_are_found() -> None:
    given = ('"""Of the newest."""', '    """As `add`."""', '"""Often."""', '"""Those of it."""')
    assert [bool(NEEDS_THE_LINE_ABOVE.search(text)) for text in given] == [True, True, False, True]


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
