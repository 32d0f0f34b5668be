"""Options, paths and addresses as Spark takes them."""

from __future__ import annotations

from pathlib import Path

from odradek.pipeline.spec.ends import Cluster
from odradek.pipeline.spec.field_types import text_of_option


def kafka_options(cluster: Cluster) -> dict[str, str]:
    """The options of a cluster for Spark's Kafka source and sink."""
    options = {f"kafka.{name}": text_of_option(value) for name, value in cluster.options.items()}
    return {"kafka.bootstrap.servers": cluster.bootstrap_servers, **options}


def resolve_path(folder: Path, path: str) -> str:
    """Make a path absolute, relative to `folder`; a URL (`s3a://`) is unchanged."""
    return path if "://" in path else str(folder / path)


def resolve_url(folder: Path, url: str) -> str:
    """Make the file in a JDBC address of SQLite absolute, relative to `folder`."""
    scheme = "jdbc:sqlite:"
    return scheme + str(folder / url.removeprefix(scheme)) if url.startswith(scheme) else url
