"""The table of served APIs, from the table that ApiVersions is made of."""

from __future__ import annotations

import ast
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from docs.generate.markdown import table
from odradek.broker.handlers.shared.table import HANDLERS, Api
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.errors import ErrorCode

INTRODUCTION: Final = """\
# Protocol support

Odradek serves the Kafka protocol with these APIs and versions; ApiVersions reports the same. A
version that is not here is refused as Apache Kafka refuses it. This page is generated from
`broker/handlers`.
"""
SECTION: Final = re.compile(r"^([A-Z][^:\n]{2,60}):\s", re.M)
SHOWN: Final = ("Served", "Ignored", "Not done")
VERSIONS: Final = re.compile(r"^Served: \d+(-\d+)?\W*")
"""The versions have a column of their own."""
NEW_IN: Final = re.compile(r"\.?\s*\n {2,}(\d+(?:-\d+)?) {2,}")
"""A version of the list in a docstring, whose line says what is new in it."""


def render() -> str:
    """The page."""
    served = [_row(row) for row in HANDLERS]
    missing = sorted(set(ApiKey) - {ApiKey(row.key) for row in HANDLERS})
    return "\n".join(
        (
            INTRODUCTION,
            table(("key", "API", "versions", "what it does here"), served),
            "## Not served\n\nClients do not see these APIs in ApiVersions.\n",
            table(("key", "API"), [(str(int(key)), camel_case(key)) for key in missing]),
            "## Error codes\n",
            table(("code", "name"), [(str(int(code)), f"`{code.name}`") for code in ErrorCode]),
        )
    )


def camel_case(key: ApiKey) -> str:
    """`ListOffsets` for LIST_OFFSETS."""
    return key.name.title().replace("_", "")


def _row(row: Api) -> tuple[str, ...]:
    advertised = row.advertised_min_version
    versions = f"{row.min_version}-{row.max_version}"
    if advertised is not None:
        versions += f" (ApiVersions reports {advertised}-{row.max_version})"
    return str(row.key), camel_case(ApiKey(row.key)), versions, _summary(row.module)


def _summary(module: str) -> str:
    """The handler's docstring: its first sentence, and what it ignores and leaves out."""
    spec = find_spec(f"odradek.broker.handlers.{module}")
    assert spec is not None, module
    assert spec.origin is not None, module
    text = ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""
    first, _, rest = text.partition("\n\n")
    notes = [first.partition(": ")[2]]
    for start, end in _sections(rest):
        if start[1].startswith(SHOWN):
            section = NEW_IN.sub(r"; \1: ", rest[start.start() : end])
            notes.append(VERSIONS.sub("", " ".join(section.split())))
    return ". ".join(note[:1].upper() + note[1:].rstrip(".") for note in notes if note)


def _sections(text: str) -> list[tuple[re.Match[str], int]]:
    """Each `Word:` at the beginning of a line, with where its text ends."""
    starts = list(SECTION.finditer(text))
    return list(zip(starts, [*(start.start() for start in starts[1:]), len(text)], strict=True))
