"""A pipeline on a standalone Spark cluster: a master and two workers on loopback."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Final

import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.pipeline.crashes import FILE, START_TIMEOUT_S, Orders, check, create_topics
from tests.support.broker_process import odradek_broker
from tests.support.class_archives import small_spark
from tests.support.pipeline_job import PipelineJob
from tests.support.ports import free_port
from tests.support.processes import LoggedProcess

HOME: Final = Path(pyspark.__file__).parent
PACKAGE: Final = "org.apache.spark.deploy"
CLUSTER: Final = """
"spark.executor.memory" = "512m"
"spark.executor.cores" = 1
"spark.driver.host" = "127.0.0.1"
"spark.driver.bindAddress" = "127.0.0.1"
"spark.ui.enabled" = false
"""


def daemon(folder: Path, name: str, main: str, *arguments: str) -> LoggedProcess:
    """Start a master or a worker; executors are children of a worker."""
    environment = {
        **small_spark(),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_WORKER_DIR": str(folder / name),
    }
    return LoggedProcess(
        [str(HOME / "bin" / "spark-class"), f"{PACKAGE}.{main}", "--host", "127.0.0.1", *arguments],
        log=folder / f"{name}.log",
        folder=folder,
        environment=environment,
    )


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, list[LoggedProcess]]]:
    """The master's address and two workers of one core."""
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:
        begin = ["--port", str(port), "--webui-port", str(free_port())]
        master = stack.enter_context(daemon(folder, "master", "master.Master", *begin))
        master.wait_for_line("I have been elected leader", timeout_s=START_TIMEOUT_S)
        workers = []
        for number in range(2):
            own = ["--cores", "1", "--memory", "700m", "--webui-port", str(free_port())]
            worker = daemon(folder, f"worker-{number}", "worker.Worker", *own, address)
            workers.append(stack.enter_context(worker))
        for worker in workers:
            worker.wait_for_line("Successfully registered", timeout_s=START_TIMEOUT_S)
        yield address, workers


def executors_of(worker: LoggedProcess) -> list[int]:
    """Processes that a worker has started."""
    listing = Path(f"/proc/{worker.pid}/task").glob("*/children")
    return [int(pid) for file in listing for pid in file.read_text().split()]


@pytest.mark.timeout(1800)
@pytest.mark.slow
def test_killed_worker_loses_no_row(spark: SparkSession, tmp_path: Path) -> None:
    with odradek_broker(tmp_path) as broker, cluster(tmp_path) as (address, workers):
        create_topics(broker.address, "orders", "copied")
        file = tmp_path / "orders.toml"
        text = FILE.format(address=broker.address).replace('"768m"', '"768m"' + CLUSTER)
        file.write_text(text)
        orders = Orders(broker.address)
        job = PipelineJob(file, log=tmp_path / "job.log", master=address)
        try:
            job.process.wait_for_line(r"^stored: batch [1-9]", timeout_s=START_TIMEOUT_S)
            executors = executors_of(workers[0])
            assert executors, "the worker works"
            # Kill the worker and its executor, as when their machine fails.
            workers[0].kill()
            for pid in executors:
                os.kill(pid, 9)
            seen = len(job.process.lines())
            deadline_s = monotonic() + START_TIMEOUT_S
            while not any(line.startswith("stored: batch") for line in job.process.lines()[seen:]):
                assert job.process.running(), job.process.tail()
                assert monotonic() < deadline_s, job.process.tail()
                Event().wait(0.1)
            assert job.process.stop(timeout_s=START_TIMEOUT_S) == 0
        finally:
            count = orders.end()
            job.close()
        last = PipelineJob(
            file, log=tmp_path / "last.log", master=address, arguments=["--mode", "available_now"]
        )
        try:
            last.finish()
        finally:
            last.close()
        check(broker.address, tmp_path, spark, count)
