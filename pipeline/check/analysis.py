"""Analyses a pipeline file without Spark, and places what it finds."""

from __future__ import annotations

from pathlib import Path

from odradek.pipeline.check.findings import Finding
from odradek.pipeline.check.spark_settings import brings_others, check_settings
from odradek.pipeline.check.steps import Analysis
from odradek.pipeline.spec.document import Document
from odradek.pipeline.spec.model import Pipeline
from odradek.pipeline.spec.problems import Problem, placed


def analyse(pipeline: Pipeline, folder: Path) -> Analysis:
    """Follow columns and types through a pipeline.

    folder  of the pipeline file
    cost    some 10 ms, after 200 ms to import the SQL parser
    """
    names = pipeline.pipeline.spark
    ends = (*pipeline.sources.values(), *pipeline.sinks.values())
    has_packages = any(getattr(one, "packages", None) for one in ends)
    analysis = Analysis(pipeline, folder, has_packages or brings_others(names))
    analysis.findings += check_settings(names)
    analysis.run()
    return analysis


def check_document(
    pipeline: Pipeline, document: Document, path: Path
) -> tuple[list[Problem], list[Problem]]:
    """The mistakes in a pipeline file, and the warnings."""
    found = analyse(pipeline, path.resolve().parent).findings
    wrong = [_problem(one, document) for one in found if not one.is_warning]
    return wrong, [_problem(one, document) for one in found if one.is_warning]


def _problem(one: Finding, document: Document) -> Problem:
    return placed(one.where, document.hidden.at(one.where, one.text), document.lines)
