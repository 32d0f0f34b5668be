"""What starts must not do: import what no first request needs, wait for the disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from odradek.command import SUBCOMMANDS
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.tools.shims.scripts import SCRIPTS
from tests.support.processes import die_with_parent
from tests.support.wire import Wire

STARTED = """
import json, os, sys

syncs = []
for name in ("fsync", "fdatasync"):
    def sync(fd, name=name, call=getattr(os, name)):
        syncs.append(name)
        call(fd)
    setattr(os, name, sync)

from odradek.command import main
from odradek.start import ephemeral

def report(*arguments):
    print(json.dumps(sorted(sys.modules)), flush=True)

ephemeral.write_ready_file = report
code = main(["start", "--ephemeral", "--port", "0", "--ready-file", "ready", *sys.argv[1:]])
print(json.dumps(syncs), flush=True)
sys.exit(code)
"""
"""A start that prints its modules instead of a ready file, and at the end its syncs."""

START = ("-m", "odradek", "start", "--port", "0")
MODULES_MAX = 308
"""Of this package, in a start without a control channel; each costs a start 0.2 to 0.4 ms."""
UNUSED = (
    "kazoo",
    "cramjam",
    "snappy",
    "lz4",
    "zstandard",
    "shutil",
    "tempfile",
    "odradek.broker.compaction",
    "odradek.broker.group.consumer",
    "odradek.broker.interbroker.wire",
    "odradek.broker.replication.follower.fetcher_state",
    "odradek.broker.replication.follower.replica_fetcher",
    "odradek.controller.decide.features",
    "odradek.controller.coordination.zookeeper",
    "odradek.controller.coordination.zookeeper_connection",
    "odradek.controller.coordination.zookeeper_requests",
    "odradek.storage.checking",
    "odradek.storage.compaction",
    "odradek.storage.log.log_check",
    "odradek.testing",
)
"""Neither these nor what they contain."""


@contextmanager
def started(
    folder: Path, *words: str, temporary: Path | None = None
) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """The process, and the modules that it had imported when clients were served.

    temporary  where it makes its data folder
    """
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", STARTED, *words],
        cwd=folder,
        env=os.environ | {"TMPDIR": str(temporary or folder)},
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=die_with_parent,
    )
    try:
        yield process, read_json(process)
    finally:
        process.kill()
        process.communicate()


def read_json(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def test_start_imports_only_what_a_first_request_needs(tmp_path: Path) -> None:
    with started(tmp_path) as (_, modules):
        pass
    unused = [
        name
        for name in modules
        if f"{name}.".startswith(tuple(f"{package}." for package in UNUSED))
    ]
    assert not unused
    own = [name for name in modules if name.startswith("odradek.")]
    assert len(own) <= MODULES_MAX, len(own)


def test_start_without_a_usable_temporary_folder_takes_another_one(tmp_path: Path) -> None:
    with started(tmp_path, temporary=tmp_path / "missing") as (process, _):
        topic_created(process)
        assert process.wait() == 0
    assert not (tmp_path / "missing").exists()


def topic_created(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    address = process.stdout.readline().split("odradek is ready on ", 1)[1].split(";", 1)[0]
    topic = CreatableTopic(
        name="orders", num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    with Wire(address) as wire:
        (result,) = wire.call(CreateTopicsRequest(topics=[topic]), 5).topics
    assert result.error_code == 0
    process.terminate()


def test_ephemeral_broker_syncs_nothing_before_its_end(tmp_path: Path) -> None:
    with started(tmp_path) as (process, _):
        topic_created(process)
        assert read_json(process) == []
        assert process.wait() == 0


def test_ephemeral_broker_with_fsync_enabled_syncs(tmp_path: Path) -> None:
    with started(tmp_path, "--override", "odradek.fsync.enable=true") as (process, _):
        topic_created(process)
        assert {"fsync", "fdatasync"} == set(read_json(process))
        assert process.wait() == 0


def compiled_by_requests(folder: Path, *words: str) -> set[str]:
    """The modules of handlers that a broker left compiled, into an empty folder."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-X", f"pycache_prefix={folder / 'pycache'}", *START, *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=die_with_parent,
    )
    try:
        topic_created(process)
        assert process.wait() == 0
    finally:
        process.kill()
        process.communicate()
    return {
        path.name.split(".")[0]
        for path in (folder / "pycache").rglob("*.pyc")
        if "handlers" in path.parts
    }


def test_ephemeral_broker_leaves_its_handlers_compiled_for_the_next(tmp_path: Path) -> None:
    assert "create_topics" in compiled_by_requests(tmp_path, "--ephemeral")


def test_broker_with_data_of_its_own_compiles_no_file_while_it_serves(tmp_path: Path) -> None:
    compiled = compiled_by_requests(tmp_path)
    assert "table" in compiled
    assert "create_topics" not in compiled


HEAVY = ("asyncio", "confluent_kafka", "kazoo", "lz4", "cramjam", "zstandard", "pyspark", "uvloop")
"""Libraries that take longer to import than a tool may take to start."""
IMPORT_EACH = """
import sys
from importlib import import_module

for module in sys.argv[1:]:
    import_module(module)
    print(module, *sys.modules)
"""


def test_tools_of_the_scripts_import_no_large_library_before_they_need_it() -> None:
    modules = [SUBCOMMANDS[row.command][0] for row in SCRIPTS if row.command is not None]
    done = subprocess.run(
        [sys.executable, "-I", "-c", IMPORT_EACH, *modules],
        capture_output=True,
        text=True,
        check=True,
    )
    imported = [line.split() for line in done.stdout.splitlines()]
    assert [module for module, *_ in imported] == modules
    assert not [(module, name) for module, *names in imported for name in HEAVY if name in names]
