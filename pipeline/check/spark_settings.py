"""Finds settings in `[pipeline.spark]` that Spark does not have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from odradek.pipeline.check.facts import settings
from odradek.pipeline.check.findings import Finding, similar

SIMILAR: Final = 0.85
PREFIX: Final = "spark."
OPEN: Final = (
    "spark.databricks.",
    "spark.driver.resource.",
    "spark.executor.resource.",
    "spark.executorEnv.",
    "spark.hadoop.",
    "spark.hive.",
    "spark.kubernetes.",
    "spark.metrics.conf.",
    "spark.mesos.",
    "spark.sql.catalog.",
    "spark.ssl.",
    "spark.task.resource.",
    "spark.ui.",
    "spark.yarn.",
)
"""Beginnings of settings whose ends are names of users or of extensions."""
BRINGS_OTHERS: Final = (
    "spark.archives",
    "spark.driver.extraClassPath",
    "spark.jars",
    "spark.plugins",
    "spark.sql.catalog",
    "spark.sql.defaultCatalog",
    "spark.sql.extensions",
    "spark.sql.parser.",
)
"""Beginnings of settings that may bring functions, tables and syntax that Spark itself lacks."""


def brings_others(names: Iterable[str]) -> bool:
    """Whether there may be functions and tables besides those of Spark."""
    return any(name.startswith(BRINGS_OTHERS) for name in names)


def check_settings(names: Iterable[str]) -> Iterator[Finding]:
    """Yield the settings that Spark does not have.

    One that is much like a setting of Spark is a mistake.  Any other in a namespace of Spark may be
    that of an extension, and of another namespace nothing is known.
    """
    known = settings()
    own = {name.split(".")[1] for name in known}
    for name in names:
        if name in known or name.startswith(OPEN):
            continue
        where = ("pipeline", "spark", name)
        if not name.startswith(PREFIX):
            if PREFIX + name in known:
                yield Finding(where, f"did you mean {PREFIX}{name}?")
            continue
        meant = similar(name, known, SIMILAR)
        if meant is not None:
            yield Finding(where, f"Spark has no such setting; did you mean {meant}?")
        elif name.split(".")[1] in own:
            yield Finding(where, "Spark has no such setting", is_warning=True)
