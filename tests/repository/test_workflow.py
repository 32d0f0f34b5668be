"""The workflow of pull requests runs what `.ci/run` runs, on each Python that is claimed."""

from __future__ import annotations

import os
import re
import tomllib
from typing import Final

from tests.repository.sources import ROOT

WORKFLOW: Final = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
JOB: Final = re.compile(r"^  (\w+):\n((?:    .*\n)+)", re.M)
JOBS: Final = dict(JOB.findall(WORKFLOW.partition("\njobs:\n")[2]))
"""Name of a job -> its lines."""


def commands(job: str) -> list[str]:
    """What the steps of a job run."""
    return re.findall(r"\brun: (.*)", JOBS[job])


def test_workflow_runs_the_script_of_ci() -> None:
    assert list(JOBS) == ["quick", "all"]
    assert commands("all") == [".ci/run"]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert 'python-version: "3.11"' in JOBS["all"]
    assert 'java-version: "17"' in JOBS["all"]


def test_quick_tests_run_on_each_python_that_the_package_claims() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    claimed = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert re.findall(r'"(3\.\d+)"', JOBS["quick"]) == claimed
    assert project["requires-python"] == f">={claimed[0]}"
    assert commands("quick") == ["make quick PYTHON=python"]


def test_commands_of_ci_are_targets_of_the_makefile() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    named = [*commands("quick"), *(ROOT / ".ci" / "run").read_text().splitlines()]
    made = re.findall(r"^(?:exec )?make ([\w-]+)", "\n".join(named), re.M)
    assert {"quick", "test", "coverage"} <= set(made)
    assert set(made) <= targets
