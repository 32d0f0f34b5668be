"""The reference of pipeline and mirror files, from the models that check them."""

from __future__ import annotations

from typing import Final

from docs.generate.markdown import table
from odradek.pipeline.spec.reference import Key, Table, mirror_tables, pipeline_tables

INTRODUCTION: Final = """\
# Keys of pipeline files

Every table and key of a pipeline file, and of a mirror file at the end; [Pipelines](pipelines.md)
says what pipelines promise. A duration is numbers and units: `20 seconds`, `1h30m`, `PT20S`. A
value may be `${NAME}` or `{ secret_file = "..." }`.

Editors complete and check files by the JSON Schema that `odradek pipeline schema` prints, and with
`--mirror` that of mirror files. With Taplo or Even Better TOML, the first line of the file is:

    #:schema ./pipeline.schema.json

This page is generated from the models in `pipeline/spec`.
"""
HEADS: Final = ("key", "type", "default", "meaning")


def render() -> str:
    """The page."""
    parts = [INTRODUCTION, *map(_section, pipeline_tables())]
    parts += ["# Keys of mirror files\n", *map(_section, mirror_tables())]
    return "\n".join(parts)


def _section(one: Table) -> str:
    return f"## {one.heading}\n\n{one.about}\n\n{table(HEADS, map(_row, one.keys))}"


def _row(key: Key) -> tuple[str, ...]:
    default = "required" if key.default is None else f"`{key.default}`" if key.default else ""
    return (f"`{key.name}`", key.type, default, key.meaning)
