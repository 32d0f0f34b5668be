"""Analyses a pipeline file without Spark, and places what it finds."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from odradek.pipeline.check.findings import Finding
from odradek.pipeline.check.spark_settings import brings_tables, check_prefixes
from odradek.pipeline.check.steps import Analysis
from odradek.pipeline.spec.document import Document
from odradek.pipeline.spec.model import PipelineSpec
from odradek.pipeline.spec.problems import Problem, placed


def analyse(pipeline: PipelineSpec, folder: Path) -> Analysis:
    """Follow columns and types through a pipeline.

    folder  of the pipeline file
    cost    some 10 ms, after 200 ms to import the SQL parser
    """
    settings = pipeline.pipeline.spark
    ends = (*pipeline.sources.values(), *pipeline.sinks.values())
    has_packages = any(getattr(end, "packages", None) for end in ends)
    analysis = Analysis(pipeline, folder, has_packages or brings_tables(settings))
    analysis.findings += check_prefixes(settings)
    analysis.run()
    return analysis


def mistakes_and_warnings(
    findings: Iterable[Finding], document: Document
) -> tuple[list[Problem], list[Problem]]:
    """Findings with the lines of the file, without its secrets."""
    mistakes: list[Problem] = []
    warnings: list[Problem] = []
    for finding in findings:
        text = document.hidden.at(finding.where, finding.text)
        problem = placed(finding.where, text, document.lines)
        (warnings if finding.is_warning else mistakes).append(problem)
    return mistakes, warnings
