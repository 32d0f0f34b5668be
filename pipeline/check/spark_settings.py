"""Finds settings in `[pipeline.spark]` that Spark does not have."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from odradek.pipeline.check.findings import Finding, similar

SIMILAR: Final = 0.85
PREFIX: Final = "spark."
NAMESPACES: Final = ("driver", "executor", "hadoop", "kubernetes", "scheduler", "sql", "yarn")
"""First words of settings, which are not those of a setting without the prefix."""
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
BRINGS_TABLES: Final = (
    "spark.archives",
    "spark.driver.extraClassPath",
    "spark.jars",
    "spark.plugins",
    "spark.sql.catalog",
    "spark.sql.defaultCatalog",
    "spark.sql.extensions",
    "spark.sql.parser.",
)
"""Beginnings of settings that may bring tables and syntax that Spark itself lacks."""


def brings_tables(names: Iterable[str]) -> bool:
    """Whether there may be tables besides the views of a pipeline."""
    return any(name.startswith(BRINGS_TABLES) for name in names)


def check_prefixes(names: Iterable[str]) -> Iterator[Finding]:
    """Yield the settings that lack the prefix of Spark's; needs no Spark."""
    for name in names:
        if name.partition(".")[0] in NAMESPACES:
            yield Finding(("pipeline", "spark", name), f"did you mean {PREFIX}{name}?")


def check_settings(names: Iterable[str], registered: Collection[str]) -> Iterator[Finding]:
    """Yield the settings in a namespace of Spark that it does not register; they are warnings.

    Some settings are read without being registered (`spark.port.maxRetries`), and extensions have
    settings of their own in the namespaces of Spark.

    registered  the settings that Spark has registered
    """
    namespaces = {name.split(".")[1] for name in registered if name.startswith(PREFIX)}
    for name in names:
        if name in registered or name.startswith(OPEN) or not name.startswith(PREFIX):
            continue
        where = ("pipeline", "spark", name)
        meant = similar(name, registered, SIMILAR)
        if meant is not None:
            text = f"Spark does not name this setting; did you mean {meant}?"
            yield Finding(where, text, is_warning=True)
        elif name.split(".")[1] in namespaces:
            yield Finding(where, "Spark does not name this setting", is_warning=True)
