"""A valid pipeline file, and the errors of others."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema.validators import validator_for

from odradek.pipeline.spec.load import parse
from odradek.pipeline.spec.mirror import Mirror
from odradek.pipeline.spec.model import PipelineSpec
from odradek.pipeline.spec.problems import SpecError
from odradek.pipeline.spec.reference import json_schema

FILE = Path("my.toml")

GOOD = """\
[pipeline]
name = "payments"
checkpoint = "state"
trigger = "2 seconds"

[clusters.main]
bootstrap_servers = "127.0.0.1:9092"

[sources.payments]
kind = "kafka"
cluster = "main"
subscribe = ["payments"]
starting_offsets = { payments = { 0 = 5, 1 = -2 } }

[steps.parsed]
kind = "parse"
from = "payments"
format = "json"
schema = "merchant STRING, amount DOUBLE, at TIMESTAMP"
rejects = "payments-rejected"
rejects_cluster = "main"

[steps.windows]
kind = "window"
from = "parsed"
time = "at"
watermark = "1 minute"
length = "10 seconds"
group_by = ["merchant"]
aggregates = { n = "count(*)", total = "sum(amount)" }

[sinks.out]
kind = "kafka"
from = "windows"
cluster = "main"
topic = "per-merchant"
"""


def problems(text: str) -> list[str]:
    """The errors of a file."""
    with pytest.raises(SpecError) as caught:
        parse(text, FILE)
    return [str(problem) for problem in caught.value.problems]


@cache
def _validator(model: type[PipelineSpec | Mirror]) -> Any:
    schema = json_schema(model)
    return validator_for(schema)(schema)


def faults(text: str, model: type[PipelineSpec | Mirror] = PipelineSpec) -> list[str]:
    """What an editor marks: the places of errors."""
    errors = _validator(model).iter_errors(tomllib.loads(text))
    return [".".join(map(str, error.absolute_path)) for error in errors]
