"""A pipeline that uses what most tests of pipelines use: its JVM writes an archive of classes.

`python -m tests.support.archived_pipeline ARGUMENTS OF odradek pipeline`, in the environment of
the PySpark whose classes are wanted; it waits until Java has written the archive.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from odradek.pipeline.cli import main
from odradek.pipeline.spark import java

ARCHIVED_TIMEOUT_S = 600.0
ROWS = 40
AT_MS = 1_767_225_600_000
TEXT = """\
[pipeline]
name = "classes"
checkpoint = "state"
mode = "available_now"

[pipeline.spark]
"spark.driver.memory" = "768m"

[clusters.main]
bootstrap_servers = "{address}"

[sources.rows]
kind = "kafka"
cluster = "main"
subscribe = ["readings"]
headers = true

[sources.names]
kind = "files"
path = "names"
format = "json"
schema = "id BIGINT, at TIMESTAMP"
epoch = "s"

[steps.parsed]
kind = "parse"
from = "rows"
format = "json"
schema = "id BIGINT NOT NULL, value DOUBLE NOT NULL, at TIMESTAMP NOT NULL"
epoch = "ms"

[steps.unique]
kind = "deduplicate"
from = "parsed"
keys = ["id"]
time = "at"
watermark = "10s"

[steps.counted]
kind = "window"
from = "unique"
time = "at"
length = "10s"
aggregates = {{ n = "count(*)", largest = "max(value)" }}

[steps.scored]
kind = "anomalies"
from = "unique"
method = "zscore"
time = "at"
value = "value"

[sinks.windows]
kind = "jdbc"
from = "counted"
url = "jdbc:sqlite:windows.db"
table = "windows"
keys = ["window_start"]
output_mode = "update"

[sinks.alarms]
kind = "kafka"
from = "scored"
cluster = "main"
topic = "alarms"

[sinks.landed]
kind = "files"
from = "names"
path = "landed"
format = "parquet"
"""
"""Kafka, files and a table; a parser, state, windows, and workers of Python."""


def readings() -> list[bytes]:
    """The records of the topic."""
    return [
        json.dumps({"id": n, "value": float(n % 5), "at": AT_MS + n * 1_000}).encode()
        for n in range(ROWS)
    ]


def prepared(folder: Path, address: str) -> Path:
    """Write the pipeline file, and the files that it reads, into a folder."""
    (folder / "names").mkdir()
    (folder / "names" / "one.json").write_text('{"id": 1, "at": 1767225600}\n')
    file = folder / "classes.toml"
    file.write_text(TEXT.format(address=address))
    return file


if __name__ == "__main__":
    vars(java)["END_TIMEOUT_S"] = ARCHIVED_TIMEOUT_S
    sys.exit(main(sys.argv[1:]))
