"""The reference of keys and the JSON Schema, made of the models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema.validators import validator_for
from pydantic import BaseModel

from docs.generate import pipelines
from odradek.pipeline.cli import main
from odradek.pipeline.spec.load import PARTS
from odradek.pipeline.spec.mirror import PARTS as MIRROR_PARTS
from odradek.pipeline.spec.mirror import Mirror
from odradek.pipeline.spec.model import PipelineSpec
from odradek.pipeline.spec.reference import json_schema, mirror_tables, pipeline_tables
from odradek.pipeline.spec.sinks import Restart
from tests.pipeline.mirroring import file
from tests.pipeline.pipeline_files import GOOD, faults
from tests.support.tool_cache import PROJECT

FILES = (
    *sorted((PROJECT / "config/pipelines").glob("*.toml")),
    *sorted((PROJECT / "examples/pipeline").glob("*.toml")),
    *sorted((PROJECT / "tests/pipeline/samples").glob("*.toml")),
)


def test_every_key_of_every_kind_has_a_type_and_a_meaning() -> None:
    parts: list[type[BaseModel]] = [part for kinds in PARTS.values() for part in kinds.values()]
    parts += [Restart, *MIRROR_PARTS.values()]
    tables = [*pipeline_tables(), *mirror_tables()]
    assert len(tables) == len(parts)
    for model, table in zip(parts, tables, strict=True):
        names = {field.alias or name for name, field in model.model_fields.items()} - {"kind"}
        assert {key.name for key in table.keys} == names, table.heading
        assert table.about
        for key in table.keys:
            assert len(key.meaning) > 10, (table.heading, key)
            assert key.type not in ("None", ""), (table.heading, key)


def test_page_has_a_row_for_every_key() -> None:
    page = pipelines.render()
    for table in (*pipeline_tables(), *mirror_tables()):
        section = page.partition(f"## {table.heading}\n")[2].partition("\n## ")[0]
        for key in table.keys:
            assert f"| `{key.name}` | " in section


def test_types_defaults_and_meanings_are_those_of_the_models() -> None:
    tables = {table.heading: table for table in pipeline_tables()}
    keys = {key.name: key for key in tables['[sinks.NAME], kind = "console"'].keys}
    assert (keys["rows"].type, keys["rows"].default) == ("integer from 1 to 2147483647", "20")
    assert (keys["from"].default, keys["from"].type) == (None, "text")
    window = {key.name: key for key in tables['[steps.NAME], kind = "window"'].keys}
    assert (window["length"].type, window["length"].default) == ("duration", "")
    assert window["gap"].meaning.startswith("session windows, which end after")
    assert window["aggregates"].meaning.startswith("Column -> SQL aggregate")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_editors_find_nothing_wrong_in_the_files_of_this_project(path: Path) -> None:
    assert faults(path.read_text()) == []


@pytest.mark.parametrize(
    ("old", "new", "places"),
    [
        ('"2 seconds"', '"${EVERY:-2s}"', []),
        ('"127.0.0.1:9092"', '{ secret_file = "brokers" }', []),
        ("starting_offsets", 'max_offsets_per_trigger = "${N}"\nstarting_offsets', []),
        ('["payments"]', '["${STAGE}-payments"]', []),
        ("starting_offsets", "max_offsets_per_trigger = 0\nstarting_offsets", ["sources.payments"]),
        ("starting_offsets", "starting_ofsets", ["sources.payments"]),
        ('kind = "window"', 'kind = "windows"', ["steps.windows"]),
        ('topic = "per-merchant"', "topic = 5", ["sinks.out"]),
        ("[pipeline]", "[pipelines]\n[pipeline]", [""]),
        ('name = "payments"', "", ["pipeline"]),
    ],
)
def test_editors_mark_errors_and_take_variables(old: str, new: str, places: list[str]) -> None:
    assert old in GOOD
    assert faults(GOOD.replace(old, new, 1)) == places


def test_includes_and_mirror_files_have_a_schema() -> None:
    assert faults(f'include = ["shared.toml"]\n{GOOD}') == []
    assert faults(f"include = 5\n{GOOD}") == ["include"]
    text = file("127.0.0.1:1", "127.0.0.1:2", name="east", pattern="a.*", mode="stream")
    assert faults(text, Mirror) == []
    assert faults(text.replace("alias", "alais", 1), Mirror) != []


def test_command_prints_the_schemas(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, model in ((["schema"], PipelineSpec), (["schema", "--mirror"], Mirror)):
        assert main(arguments) == 0
        printed = json.loads(capsys.readouterr().out)
        validator_for(printed).check_schema(printed)
        assert printed == json_schema(model)
        (head, *_) = (key for key in printed["properties"] if key != "include")
        assert head == ("pipeline" if model is PipelineSpec else "mirror")
        definition = printed["properties"][head]["$ref"].rpartition("/")[2]
        assert f"`[{head}]`" in printed["$defs"][definition]["description"]
