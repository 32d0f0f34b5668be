"""Words that a reader of Kafka's documentation would not expect, and text that must not be here."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import Final

from tests.repository.sources import ROOT, Source, everything, product, python, sources, tracked

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
LETTERS: Final = re.compile("[A-Za-z]+")
ANSWER: Final = re.compile(r"(?<![a-z])answers?(?![a-z])|Answers?(?![a-z])|ANSWERS?(?![A-Z])")
"""A response has no other name; to be answered is allowed."""
NAMES_OF_TESTS: Final = "tests/repository/test_tests.py"
"""It forbids the word, too."""
LEANS: Final = re.compile(r"(?:Of|As|The same|Those|Likewise)\b")
"""Begins a docstring that needs the line above."""
IS_NO: Final = re.compile(
    r"(?<![Tt]here )(?<!may )\b(?:is|are|was|were|be) (?:no|none)\b"
    r"(?! (?:longer|more|less|earlier|older|later|newer|greater|such))"
)
"""`is not a` says it; `there is no` and `is no longer` are allowed."""
SUFFIXES: Final = (
    *(
        ".py",
        ".tsv",
        ".md",
        ".properties",
        ".toml",
        ".sh",
        "Makefile",
        "Dockerfile",
        ".yml",
        ".yaml",
    ),
    *(".java", ".go", ".js", ".c", ".h", ".svg", ".cfg", ".service", ".xml"),
)


@cache
def has_forbidden_word(letters: str) -> bool:
    """letters  as many as stand beside each other"""
    return FORBIDDEN.search(letters) is not None


def forbidden_words(file: Source) -> list[str]:
    """`path:line: word` of each; line 0 is the path."""
    if not any(map(has_forbidden_word, set(LETTERS.findall(f"{file.name} {file.text}")))):
        return []
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
        if file.name not in (THIS_FILE, NAMES_OF_TESTS) and "answer" in file.text.lower()
        for number, line in enumerate(file.text.splitlines(), 1)
        if ANSWER.search(line)
    ]
    assert not offenders, "response, respond:\n" + "\n".join(offenders)


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


def leaning_docstrings(file: Source) -> list[str]:
    """`path:line` of each docstring, also of a field or a constant, that leans on what is above."""
    return [
        f"{file.name}:{node.lineno}"
        for node in file.nodes
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node.value.value, str) and LEANS.match(node.value.value.strip())
    ]


def test_docstrings_can_be_read_alone() -> None:
    files = (*product(), *python("bench", "docs", "examples"))
    offenders = [line for file in files for line in leaning_docstrings(file)]
    assert not offenders, "\n".join(offenders)


def test_what_is_not_something_is_not_called_no_such_thing() -> None:
    offenders = [
        f"{file.name}:{number}: {line.strip()}"
        for file in product()
        for number, line in enumerate(file.text.splitlines(), 1)
        if IS_NO.search(line)
    ]
    assert not offenders, "\n".join(offenders)


def test_search_for_sentences_that_lean_finds_docstrings_of_fields() -> None:
    class Given(Source):
        text = '"""Offsets of a log."""\nX = 1\n"""Of the log."""\nclass A:\n    """As `B`."""\n'

    assert leaning_docstrings(Given("given.py")) == ["given.py:3", "given.py:5"]
    given = (
        "a pipe is no file",
        "they are none of ours",
        "there is no file",
        "it is no longer one",
    )
    assert [bool(IS_NO.search(text)) for text in given] == [True, True, False, False]
