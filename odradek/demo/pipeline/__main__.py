"""`make demo-pipeline`: a broker, card payments, a pipeline, and a page with its findings."""

from __future__ import annotations

import argparse
import contextlib
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib.resources import files
from json import dumps
from pathlib import Path

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from odradek.demo.pipeline.findings import END, Findings, read_findings
from odradek.demo.pipeline.payments import Truth, make_payments
from odradek.demo.pipeline.report import read_progress, write_report
from odradek.launcher import module_command
from odradek.pipeline.jobs.stop import Stop, Stopped

START_S = 180.0
DRAIN_S = 240.0
PARTITIONS = 4
SETTLE_MS = 25_000
"""How much later than the run the last payments are, which close the last windows."""
SINKS = ("landed", "merchants", "hot_merchants", "alarms")
QUERIES = (*SINKS, "parsed_rejects")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; returns 0 when all planted findings and all counts are complete.

    SIGTERM and SIGINT stop it and its processes: 128 + signal.  A second signal does not wait.
    """
    parser = argparse.ArgumentParser(prog="demo-pipeline")
    parser.add_argument("--rate", type=int, default=500, help="payments per second")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("build/demo-pipeline"))
    parser.add_argument("--broker", help="a broker that runs already; default: one is started")
    parser.add_argument("--jars", type=Path, help="a folder of Spark's connector jars")
    parsed = parser.parse_args(arguments)
    stop = Stop()
    with stop.installed():
        try:
            return _demo(parsed)
        except Stopped:
            print("stopped", file=sys.stderr)
            return 128 + stop.number
        except KafkaException as error:
            print(f"the broker: {error.args[0].str()}", file=sys.stderr)
            return 1


def _demo(parsed: argparse.Namespace) -> int:
    folder = parsed.folder.resolve() / time.strftime("%Y%m%d-%H%M%S")
    folder.mkdir(parents=True)
    with contextlib.ExitStack() as stack:
        address = parsed.broker or stack.enter_context(_broker(folder))
        _create(address, "payments")
        pipeline = stack.enter_context(_pipeline(folder, address, parsed.jars))
        _await_start(folder, pipeline)
        truth = Truth(begin_ms=int(time.time() * 1_000))
        _send(address, truth, seed=parsed.seed, rate=parsed.rate, seconds=parsed.seconds)
        (folder / "planted.json").write_text(dumps(asdict(truth), indent=1))
        findings, lacking = _await_findings(folder, address, truth, pipeline)
    progress = read_progress(folder / "progress.jsonl")
    page = folder / "report.html"
    write_report(page, truth, findings, progress)
    return _tell(truth, findings, lacking, page)


@contextlib.contextmanager
def _broker(folder: Path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    settings = {"listeners": f"PLAINTEXT://{address}", "log.dirs": str(folder / "data")}
    (folder / "server.properties").write_text("".join(f"{k}={v}\n" for k, v in settings.items()))
    command = module_command("odradek", "start", str(folder / "server.properties"))
    with _process(command, folder / "broker.log") as process:
        _await_port(address, process, folder)
        print(f"broker on {address}")
        yield address


def _await_port(address: str, broker: subprocess.Popen[bytes], folder: Path) -> None:
    """Wait until the broker listens, since clients log every refused connection."""
    host, _, port = address.rpartition(":")
    deadline_s = time.monotonic() + START_S
    while True:
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1.0):
            return
        _wait(broker, 0.05, deadline_s, folder / "broker.log")


@contextlib.contextmanager
def _pipeline(folder: Path, address: str, jars: Path | None) -> Iterator[subprocess.Popen[bytes]]:
    text = files("odradek.demo.pipeline").joinpath("payments.toml").read_text(encoding="utf-8")
    path = folder / "payments.toml"
    path.write_text(text.replace('"ADDRESS"', f'"{address}"'))
    command = module_command("odradek.pipeline.cli", "run", str(path))
    command += ["--progress-file", str(folder / "progress.jsonl")]
    if jars is not None:
        command += ["--jars", str(jars)]
    with _process(command, folder / "pipeline.log") as process:
        yield process


@contextlib.contextmanager
def _process(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        # In a new session, so that Ctrl-C reaches the demo only, which stops the pipeline before
        # the broker.
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(START_S)
            except (subprocess.TimeoutExpired, Stopped):
                process.kill()
                process.wait()


def _create(address: str, topic: str) -> None:
    # At its end it would log the events that were not waited for.
    admin = AdminClient({"bootstrap.servers": address, "log_level": 5})
    for done in admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).values():
        done.result(START_S)


def _await_start(folder: Path, pipeline: subprocess.Popen[bytes]) -> None:
    """Wait until every query has started, which writes its identity to its checkpoint."""
    print("Spark starts ...")
    deadline_s = time.monotonic() + 2 * START_S
    while not all((folder / "state" / sink / "metadata").exists() for sink in SINKS):
        _wait(pipeline, 0.5, deadline_s, folder / "pipeline.log")


def _wait(process: subprocess.Popen[bytes], wait_s: float, deadline_s: float, log: Path) -> None:
    """Wait for `wait_s`.

    raises  SystemExit when the process has ended, or after the deadline
    """
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(wait_s)
        raise SystemExit(f"a process has ended: see {log}")
    if time.monotonic() > deadline_s:
        raise SystemExit(f"a process takes too long: see {log}")


def _send(address: str, truth: Truth, *, seed: int, rate: int, seconds: int) -> None:
    events = make_payments(truth, seed=seed, rate_per_second=rate, duration_ms=seconds * 1_000)
    ordered = sorted(events, key=lambda event: event.send_ms)
    producer = Producer({"bootstrap.servers": address, "linger.ms": 20})
    print(f"{len(ordered):,} records in {seconds} s ...")
    begin_s = time.monotonic()
    for event in ordered:
        wait_s = event.send_ms / 1_000 - (time.monotonic() - begin_s)
        producer.poll(max(wait_s, 0))
        producer.produce("payments", event.value, event.key)
    producer.flush(START_S)
    _push_watermark(producer, truth, seconds * 1_000)
    truth.records = len(ordered) + PARTITIONS


def _push_watermark(producer: Producer, truth: Truth, end_ms: int) -> None:
    """Send a much later payment to each partition; the findings ignore these."""
    after = time.gmtime((truth.begin_ms + end_ms + SETTLE_MS) / 1_000)
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", after)
    for partition in range(PARTITIONS):
        identity = f"{END}{partition}"
        value = {"id": identity, "card": "", "merchant": "end", "amount": 0.0, "at": at}
        producer.produce("payments", dumps(value).encode(), b"end", partition)
    producer.flush(START_S)


def _await_findings(
    folder: Path, address: str, truth: Truth, pipeline: subprocess.Popen[bytes]
) -> tuple[Findings, list[str]]:
    """Wait until the output of the pipeline is complete, or for DRAIN_S; returns what is missing.

    The number of `alarms` is unknown: they are complete when their query has read everything.

    raises  SystemExit when nothing can be read until then, or the pipeline ends
    """
    print("the pipeline finishes ...")
    deadline_s = time.monotonic() + DRAIN_S
    while True:
        with contextlib.suppress(OSError, sqlite3.Error, KafkaException):
            unread = [
                f"query {query}: {count:,} of {truth.records:,} records read"
                for query, count in _read_by(folder).items()
                if count < truth.records
            ]
            # Read after the progress: a query has written what it has read.
            findings = read_findings(folder, address)
            lacking = [*unread, *findings.lacks(truth)]
            if not lacking or time.monotonic() > deadline_s:
                return findings, lacking
        _wait(pipeline, 0.5, deadline_s + START_S, folder / "pipeline.log")


def _read_by(folder: Path) -> dict[str, int]:
    """Query -> records that it has read and processed."""
    counts = dict.fromkeys(QUERIES, 0)
    for batch in read_progress(folder / "progress.jsonl"):
        counts[batch["name"]] = batch["rows_total"]
    return counts


def _tell(truth: Truth, findings: Findings, lacking: list[str], page: Path) -> int:
    hot, odd = findings.hot(truth), findings.anomalies(truth)
    print(f"payments: {truth.payments:,} sent, {findings.landed_ids:,} landed")
    for name, verdict in (("hot merchants", hot), ("odd amounts", odd)):
        print(f"{name}: {verdict.planted} planted, {verdict.right} of them found, {verdict}")
    for line in lacking:
        print(f"not whole: {line}")
    print(f"the page: {page}")
    is_whole = not lacking and findings.landed == findings.landed_ids == truth.payments
    return 0 if is_whole and hot.is_complete and odd.is_complete else 1


if __name__ == "__main__":
    sys.exit(main())
