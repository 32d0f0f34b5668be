"""What each key of a pipeline or mirror file is, from the models and their docstrings.

The documentation page and the JSON Schema are made of it.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from odradek.pipeline.spec.load import PARTS
from odradek.pipeline.spec.mirror import PARTS as MIRROR_PARTS
from odradek.pipeline.spec.mirror import Mirror
from odradek.pipeline.spec.model import PipelineSpec
from odradek.pipeline.spec.sinks import Restart

VARIABLE: Final = {"type": "string", "pattern": r"\$\{[A-Za-z_]", "description": "${NAME}"}
INCLUDED: Final = {
    "type": "array",
    "items": {"type": "string"},
    "description": "Files with further tables; the keys of this file come first.",
}
SECRET: Final = {
    "type": "object",
    "properties": {"secret_file": {"type": "string"}},
    "required": ["secret_file"],
    "additionalProperties": False,
    "description": "The text of a file.",
}
_ENTRY: Final = re.compile(r"^((?:\w+, )*\w+)(?: {2,}|\n {4,})(\S.*(?:\n +\S.*)*)", re.MULTILINE)
"""`name  text` or `name, name  text` in a docstring, with indented further lines."""
_SCALARS: Final = ("integer", "number", "boolean")


_Parts = dict[str | int, dict[str | None, type[BaseModel]]]


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a table.

    default  as in TOML; None for a key that must be given; empty for one without a value
    """

    name: str
    type: str
    default: str | None
    meaning: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a file.

    heading  as in TOML: `[sources.NAME]` with the kind, `[pipeline]`
    """

    heading: str
    about: str
    keys: tuple[Key, ...]


def pipeline_tables() -> list[Table]:
    """The tables of a pipeline file, kind by kind."""
    tables = _tables(PARTS, named=("clusters", "registries", "sources", "steps", "sinks"))
    restart = Table(
        "[pipeline.restart], [sinks.NAME.restart]", _about(Restart), tuple(_keys(Restart))
    )
    return [*tables, restart]


def mirror_tables() -> list[Table]:
    """The tables of a mirror file."""
    parts: _Parts = {name: {None: part} for name, part in MIRROR_PARTS.items()}
    return list(_tables(parts, named=()))


def json_schema(model: type[PipelineSpec | Mirror]) -> dict[str, Any]:
    """The JSON Schema of a file, for editors: keys with their meanings, variables allowed."""
    schema = model.model_json_schema(by_alias=True)
    parts = [part for kinds in PARTS.values() for part in kinds.values()]
    models: list[type[BaseModel]] = [*parts, *MIRROR_PARTS.values(), Restart, model]
    described = {part.__name__: part for part in models}
    for name, definition in (*schema.get("$defs", {}).items(), (model.__name__, schema)):
        meanings = _meanings(described[name])
        definition["description"] = _about(described[name])
        for key, value in definition["properties"].items():
            value.pop("title", None)
            if key in meanings:
                value["description"] = meanings[key]
    allowed: dict[str, Any] = _with_variables(schema)
    allowed["properties"] = {"include": INCLUDED, **allowed["properties"]}
    return {"$schema": GenerateJsonSchema.schema_dialect, **allowed}


def _tables(parts: _Parts, *, named: tuple[str, ...]) -> Iterator[Table]:
    for table, kinds in parts.items():
        for kind, model in kinds.items():
            heading = f"[{table}.NAME]" if table in named else f"[{table}]"
            if kind is not None:
                heading += f', kind = "{kind}"'
            yield Table(heading, _about(model), tuple(_keys(model)))


def _keys(model: type[BaseModel]) -> Iterator[Key]:
    schema = model.model_json_schema(by_alias=True)
    meanings = _meanings(model)
    for name, value in schema["properties"].items():
        if name == "kind":
            continue
        default = None if name in schema.get("required", ()) else _in_toml(value.get("default"))
        yield Key(
            name,
            _type(value, schema.get("$defs", {})),
            default,
            meanings.get(name) or value.get("description", ""),
        )


def _about(model: type[BaseModel]) -> str:
    """The docstring without its list of keys."""
    return re.sub(r"\n{3,}", "\n\n", _ENTRY.sub("", inspect.cleandoc(model.__doc__ or ""))).strip()


def _meanings(model: type[BaseModel]) -> dict[str, str]:
    """Key -> what the docstrings of a model and its bases say of it."""
    meanings: dict[str, str] = {}
    for ancestor in reversed(model.__mro__):
        if not issubclass(ancestor, BaseModel) or ancestor is BaseModel:
            continue
        entries = {
            name: text
            for names, text in _ENTRY.findall(inspect.cleandoc(ancestor.__doc__ or ""))
            for name in names.split(", ")
        }
        entries |= _attribute_docstrings(ancestor)
        for field, text in entries.items():
            if field in model.model_fields:
                alias = model.model_fields[field].alias or field
                meanings[alias] = " ".join(text.split())
            elif any(info.alias == field for info in model.model_fields.values()):
                meanings[field] = " ".join(text.split())
    return meanings


def _attribute_docstrings(model: type[BaseModel]) -> dict[str, str]:
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    assert isinstance(definition, ast.ClassDef), "the source of a class is one"
    docstrings: dict[str, str] = {}
    for node, after in zip(definition.body, definition.body[1:], strict=False):
        if (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
            and isinstance(after.value.value, str)
        ):
            docstrings[node.target.id] = after.value.value
    return docstrings


def _type(value: dict[str, Any], definitions: dict[str, Any]) -> str:
    """The type of a value in words."""
    if "$ref" in value:
        value = definitions[value["$ref"].rpartition("/")[2]]
    if "anyOf" in value:
        types = [
            _type(choice, definitions) for choice in value["anyOf"] if choice.get("type") != "null"
        ]
        return " or ".join(dict.fromkeys(types))
    if "enum" in value:
        return ", ".join(f'"{choice}"' for choice in value["enum"])
    if "const" in value:
        return f'"{value["const"]}"'
    match value.get("type"):
        case "array":
            items = _type(value["items"], definitions)
            return f"array of {items}s" if " " not in items else f"array of {items}"
        case "object":
            return "table"
        case "integer" | "number" as kind:
            return f"{kind}{_bounds(value)}"
        case "string":
            return str(value.get("format", "text"))
        case other:
            return str(other)


def _bounds(value: dict[str, Any]) -> str:
    lowest, highest = value.get("minimum"), value.get("maximum")
    above, below = value.get("exclusiveMinimum"), value.get("exclusiveMaximum")
    bounds = [
        text
        for bound, text in (
            (lowest, f"from {lowest}"),
            (above, f"above {above}"),
            (highest, f"to {highest}"),
            (below, f"below {below}"),
        )
        if bound is not None
    ]
    return f" {' '.join(bounds)}" if bounds else ""


def _in_toml(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"'
        case list():
            return f"[{', '.join(map(_in_toml, value))}]"
        case dict():
            return "{}"
        case _:
            return str(value)


def _with_variables(value: Any) -> Any:
    """A schema that takes variables and secret files where it takes texts, numbers, booleans."""
    if isinstance(value, list):
        return [_with_variables(element) for element in value]
    if not isinstance(value, dict):
        return value
    kind = value.get("type")
    if kind in _SCALARS or (kind == "string" and "const" not in value):
        outer = {key: value[key] for key in ("description", "default") if key in value}
        inner = {key: element for key, element in value.items() if key not in outer}
        return {**outer, "anyOf": [inner, VARIABLE, SECRET]}
    return {
        key: element if key in ("default", "discriminator") else _with_variables(element)
        for key, element in value.items()
    }
