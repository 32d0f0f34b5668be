"""The reference of pipeline and mirror files, from the models that check them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from docs.generate.markdown import table
from odradek.pipeline.spec.reference import Key, Table, mirror_tables, pipeline_tables

INTRODUCTION: Final = """\
# Keys of pipeline files

Every table and key of a pipeline file, and of a mirror file at the end;
[Pipelines](pipelines/index.md) says what pipelines promise. A duration is numbers and units:
`20 seconds`, `1h30m`, `PT20S`. A value may be `${NAME}` or `{ secret_file = "..." }`.

Editors complete and check files by the JSON Schema that `odradek pipeline schema` prints, and with
`--mirror` that of mirror files. With Taplo or Even Better TOML, the first line of the file is:

    #:schema ./pipeline.schema.json

Each kind of source, step and sink has an example, a whole file with its cases, which
`odradek pipeline test` runs: they are in `examples/pipeline/kinds`.

This page is generated from the models in `pipeline/spec`.
"""
EXAMPLES: Final = Path(__file__).resolve().parents[2] / "examples" / "pipeline" / "kinds"
"""`TABLE-KIND.toml` and `TABLE-KIND.test.toml` for a kind."""
KIND: Final = re.compile(r'\[(\w+)\.NAME\], kind = "(\w+)"')
HEADS: Final = ("key", "type", "default", "meaning")


def render() -> str:
    """The page."""
    parts = [INTRODUCTION, *map(_section, pipeline_tables())]
    parts += ["# Keys of mirror files\n", *map(_section, mirror_tables())]
    return "\n".join(parts)


def _section(section: Table) -> str:
    keys = table(HEADS, map(_row, section.keys))
    return f"## {section.heading}\n\n{section.about}\n\n{keys}{_example(section.heading)}"


def _example(heading: str) -> str:
    """The example of a kind, and its cases."""
    kind = KIND.fullmatch(heading)
    if kind is None:
        return ""
    file = EXAMPLES / f"{kind[1]}-{kind[2]}.toml"
    if not file.exists():
        return ""
    texts = [path.read_text(encoding="utf-8") for path in (file, file.with_suffix(".test.toml"))]
    blocks = [f"```toml\n{text}```\n" for text in texts]
    return f"\nExample:\n\n{blocks[0]}\nIts cases:\n\n{blocks[1]}"


def _row(key: Key) -> tuple[str, ...]:
    default = "required" if key.default is None else f"`{key.default}`" if key.default else ""
    return (f"`{key.name}`", key.type, default, key.meaning)
