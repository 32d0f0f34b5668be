"""What of a tool's output scripts can depend on, for comparison with that of Apache's tool."""

from __future__ import annotations

import json
import re
from typing import Any, Final

LIST: Final = re.compile(r"\S+(?:, ?\S+)+")
BRACKETS: Final = str.maketrans("", "", "()[]'\"")
EXCEPTION: Final = re.compile(r"\b(?:[a-z]\w*\.)+[A-Z][\w$]*(?:Exception|TooLarge): ?")
ERROR_NAME: Final = re.compile(r"\b[A-Z]{2,}(?:_[A-Z]+)+: ?")
MISSING_FILE: Final = re.compile(r"java\.nio\.file\.NoSuchFileException: (\S+)")
ONE_LINE_TABLE: Final = re.compile(r" *(GROUP +)?TOPIC +PARTITION +(STATUS|NEW-OFFSET)")


def comparable(conversation: str) -> list[tuple[str, list[str]]]:
    """Command lines, and the lines that each printed with its exit code.

    The order of lines, of items of a list and of arrays of JSON is that of a hash table in
    Apache's tools: here it is sorted.  The order of columns counts; names in apostrophes after a
    colon do not, which Apache's tool prints with some apostrophes missing.  Our tools print
    names of error codes in place of Java's exceptions; neither are compared.
    """
    sections = re.split(r"^(?=\$ )", conversation, flags=re.MULTILINE)
    played = [section.splitlines() for section in sections if section]
    return [(command, sorted(map(_comparable_line, lines))) for command, *lines in played]


def _comparable_line(line: str) -> str:
    if line.startswith("  {"):
        return json.dumps(_sorted_arrays(json.loads(line)))
    line = MISSING_FILE.sub(r"\1 does not exist", line)
    line = ERROR_NAME.sub("", EXCEPTION.sub("", line))
    if ONE_LINE_TABLE.match(line):
        return " ".join(sorted(line.split()))
    words, _, _ = line.partition(": '")
    return LIST.sub(_sorted_list, words.translate(BRACKETS))


def _sorted_arrays(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted_arrays(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted(map(_sorted_arrays, value), key=json.dumps)
    return value


def _sorted_list(match: re.Match[str]) -> str:
    return ",".join(sorted(re.split(", ?", match[0])))
