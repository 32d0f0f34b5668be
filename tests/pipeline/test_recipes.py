"""The files by which pipelines are watched and run as services name what there is."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

from odradek.pipeline.check.steps import analyse
from odradek.pipeline.cli import build_parser
from odradek.pipeline.report.metrics import PREFIX, ProgressCollector
from odradek.pipeline.report.progress import Progress
from odradek.pipeline.spec.load import parse
from tests.support.tool_cache import PROJECT

CONFIG = PROJECT / "config"


def served() -> set[str]:
    """The names of metrics; counters end with _total."""
    families = ProgressCollector(Progress()).collect()
    return {family.name + ("_total" if family.type == "counter" else "") for family in families}


def expressions(value: Any) -> list[str]:
    """All queries of a dashboard."""
    if isinstance(value, dict):
        values = [child for key, child in value.items() if key in ("expr", "query")]
        texts = [text for text in values if isinstance(text, str)]
        return texts + [text for child in value.values() for text in expressions(child)]
    return (
        [text for child in value for text in expressions(child)] if isinstance(value, list) else []
    )


def test_dashboard_shows_every_metric_and_no_other() -> None:
    dashboard = json.loads((CONFIG / "grafana" / "odradek-pipeline.json").read_text())
    named = {name for text in expressions(dashboard) for name in re.findall(rf"{PREFIX}\w+", text)}
    assert named - served() == set()
    assert served() - named - {f"{PREFIX}rows_per_second"} == set(), "rows_total has the rate"


def arguments(file: Path, line: str) -> list[str]:
    """After `odradek pipeline` in a line of a file."""
    (arguments_text,) = re.findall(line, file.read_text(), re.MULTILINE)
    return shlex.split(arguments_text.replace("[", " ").replace("]", " ").replace(",", " "))


def test_services_run_commands_that_there_are() -> None:
    unit = CONFIG / "systemd" / "odradek-pipeline@.service"
    checked = build_parser().parse_args(
        arguments(unit, r"^ExecStartPre=\S+/odradek pipeline (.*)$")
    )
    run = build_parser().parse_args(arguments(unit, r"^ExecStart=\S+/odradek pipeline (.*)$"))
    assert (checked.command, run.command) == ("check", "run")
    assert run.file == checked.file
    manifest = CONFIG / "kubernetes" / "pipeline.yaml"
    run = build_parser().parse_args(arguments(manifest, r"args: \[odradek, pipeline, (.*)\]$"))
    assert run.metrics_port == ("0.0.0.0", 9404)


def test_pipeline_of_the_manifest_has_no_mistakes() -> None:
    text = (CONFIG / "kubernetes" / "pipeline.yaml").read_text()
    begin = text.index("    [pipeline]")
    file = re.sub(r"^    ", "", text[begin : text.index("---", begin)], flags=re.MULTILINE)
    file = file.replace("${KAFKA}", "kafka:9092").replace('{ secret_file = "/secrets/jaas" }', '""')
    assert analyse(parse(file, Path("orders.toml")), Path()).findings == []
