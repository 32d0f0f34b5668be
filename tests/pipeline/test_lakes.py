"""Delta Lake, Iceberg and S3 with their real connectors, also when the job is killed."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.pipeline.crashes import FILE, LAST_TIMEOUT_S, Orders, Report, create_topics, one_run
from tests.pipeline.lakes import CATALOG, CREDENTIALS, ids, job
from tests.support import fetched_connectors
from tests.support.broker_process import odradek_broker
from tests.support.compacted import wait_until
from tests.support.moto_server import s3_server
from tests.support.pipeline_job import PipelineJob

KILLS = 4
RATE_PER_SECOND = 10
BUCKET = "lake"
SINKS = """
[sinks.delta]
kind = "spark"
from = "parsed"
format = "delta"
path = "{delta}"
partition_by = ["merchant"]

[sinks.iceberg]
kind = "spark"
from = "parsed"
format = "iceberg"
table = "lake.shop.orders"
partition_by = ["merchant"]
options = {{ "fanout-enabled" = true }}
"""
S3 = """
[pipeline.spark]
"spark.hadoop.fs.s3a.endpoint" = "{server}"
"spark.hadoop.fs.s3a.path.style.access" = true
"""
SECRET = CREDENTIALS["AWS_SECRET_ACCESS_KEY"]
FROM_FILES = """
[sources.files]
kind = "files"
path = "s3a://{bucket}/files"
format = "parquet"
schema = "id BIGINT, merchant STRING, amount DOUBLE, at TIMESTAMP"

[sinks.from_files]
kind = "files"
from = "files"
format = "json"
path = "from-files"
"""
READ = """
[pipeline]
name = "read"
mode = "{mode}"
checkpoint = "read-state-{mode}"

[pipeline.spark]
"spark.driver.memory" = "768m"
"spark.sql.shuffle.partitions" = 2
{catalog}
[sources.delta]
kind = "spark"
format = "delta"
path = "{delta}"

[sources.iceberg]
kind = "spark"
format = "iceberg"
table = "lake.shop.orders"

[sinks.from_delta]
kind = "files"
from = "delta"
format = "json"
path = "from-delta-{mode}"

[sinks.from_iceberg]
kind = "files"
from = "iceberg"
format = "json"
path = "from-iceberg-{mode}"
"""


def write_files(folder: Path, address: str, places: dict[str, str]) -> Path:
    """Write the file of the job, and one that reads its tables."""
    catalog = CATALOG.format(**places)
    head, clusters, sources = FILE.partition("[clusters.main]")
    file = folder / "orders.toml"
    steps = sources.partition("[steps.counted]")[0]
    file.write_text((head + catalog + clusters + steps + SINKS).format(address=address, **places))
    read = READ.format(mode="available_now", catalog=catalog, **places)
    (folder / "read.toml").write_text(read)
    return file


def check_tables(folder: Path, count: int) -> None:
    """Check that another job reads each record once from both tables."""
    job(folder / "read.toml", "read.log")
    for name in ("from-delta-available_now", "from-iceberg-available_now"):
        assert ids(folder, name) == list(range(count)), name


def repeat_the_last_batch(folder: Path, sink: str) -> None:
    """Make a checkpoint as a kill between the commits of the table and of Spark leaves it."""
    commits = folder / "state" / sink / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_lakes_have_each_record_once_when_the_job_is_killed(tmp_path: Path) -> None:
    places = {"delta": "delta", "warehouse": str(tmp_path / "warehouse")}
    environment = fetched_connectors.environment()
    seed = random.SystemRandom().randrange(2**32)
    chance, report = random.Random(seed), Report(seed)
    with odradek_broker(tmp_path / "broker") as broker:
        create_topics(broker.address, "orders")
        file = write_files(tmp_path, broker.address, places)
        orders = Orders(broker.address, rate_per_second=RATE_PER_SECOND)
        try:
            for life in range(KILLS):
                one_run(file, chance, report, life, ("delta", "iceberg"), environment)
        finally:
            count = orders.end()
        job(file, "last.log")
        for sink in ("delta", "iceberg"):
            repeat_the_last_batch(tmp_path, sink)
        job(file, "repeated.log")
    print(f"seed {seed}: {report.victims}, {count} records", flush=True)
    check_tables(tmp_path, count)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_lakes_and_files_are_written_to_and_read_from_s3(tmp_path: Path) -> None:
    with s3_server(tmp_path, BUCKET) as server, odradek_broker(tmp_path / "broker") as broker:
        places = {"delta": f"s3a://{BUCKET}/delta", "warehouse": f"s3a://{BUCKET}/warehouse"}
        create_topics(broker.address, "orders")
        file = write_files(tmp_path, broker.address, places)
        for pipeline_file in (file, tmp_path / "read.toml"):
            pipeline_file.write_text(
                pipeline_file.read_text().replace("[pipeline.spark]\n", S3.format(server=server))
            )
        files = '\n[sinks.files]\nkind = "files"\nfrom = "parsed"\nformat = "parquet"\n'
        with file.open("a") as more:
            more.write(f'{files}path = "s3a://{BUCKET}/files"\n')
        with (tmp_path / "read.toml").open("a") as more:
            more.write(FROM_FILES.format(bucket=BUCKET))
        orders = Orders(broker.address, rate_per_second=200)
        try:
            wait_until("the orders are sent", lambda: orders.count >= 500)
        finally:
            count = orders.end()
        job(file, "job.log")
        check_tables(tmp_path, count)
        assert ids(tmp_path, "from-files") == list(range(count))
        assert SECRET not in "".join(path.read_text() for path in tmp_path.glob("*.log"))


SHARED = """
[pipeline]
name = "shared"
checkpoint = "state"
queries = "shared"

[sources.orders]
kind = "files"
path = "in"
format = "json"
schema = "id BIGINT"
max_files_per_trigger = 1

[sinks.delta]
kind = "spark"
from = "orders"
format = "delta"
path = "delta"

[sinks.landed]
kind = "files"
from = "orders"
format = "json"
path = "landed"
"""
READ_SHARED = """
[pipeline]
name = "read"
mode = "batch"

[sources.delta]
kind = "spark"
format = "delta"
path = "delta"

[sinks.from_delta]
kind = "files"
from = "delta"
format = "json"
path = "from-delta"
"""


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_delta_in_a_shared_query_skips_a_batch_that_is_repeated(tmp_path: Path) -> None:
    count = 3
    (tmp_path / "in").mkdir()
    for number in range(count):
        (tmp_path / "in" / f"{number}.json").write_text(json.dumps({"id": number}) + "\n")
    file = tmp_path / "shared.toml"
    file.write_text(SHARED)
    job(file, "first.log")
    repeat_the_last_batch(tmp_path, "orders_shared")
    job(file, "second.log")
    read = tmp_path / "read.toml"
    read.write_text(READ_SHARED)
    run = PipelineJob(read, log=tmp_path / "read.log", environment=fetched_connectors.environment())
    try:
        run.finish(timeout_s=LAST_TIMEOUT_S)
    finally:
        run.close()
    assert ids(tmp_path, "from-delta") == ids(tmp_path, "landed") == list(range(count))
