"""Programs that start others of this package start those of the package that they belong to.

Two copies of the wheel are installed with `pip install --target`.  Each writes a line for every
process that imports it; the lines of a program show which copy served it.
"""

from __future__ import annotations

import json
import os
import subprocess
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.packaging.bare_environment import (
    INSTALL,
    PIP,
    link_required,
    make_environment,
    site_packages_of,
)
from tests.support.processes import LoggedProcess

RUN_TIMEOUT_S = 240.0
READY_TIMEOUT_S = 120.0
SEEN = "SEEN_BY_TEST"
REPORT = f"""
import json, os, sys

with open(os.environ["{SEEN}"], "a") as seen:
    print(json.dumps([os.path.abspath(__path__[0]), " ".join(sys.orig_argv)]), file=seen)
"""
BROKER = """
from odradek.testing import Broker
from confluent_kafka import Producer

with Broker() as broker:
    broker.create_topic("orders", configs={"cleanup.policy": "compact"})
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(100):
        producer.produce("orders", str(number), b"key")
    assert producer.flush(60) == 0
    broker.compact("orders")
"""
"""A broker, and the process of its compaction."""


class Copies(NamedTuple):
    """Folders of packages: `wanted` is to be served, `other` is not."""

    own: Path
    other: Path


class Start(NamedTuple):
    """How a program is started: interpreter and options, lines at its beginning, environment."""

    python: list[str]
    lines: str = ""
    environment: Mapping[str, str] = {}
    cwd: Path | None = None


def install(wheel: Path, folder: Path) -> Path:
    """The wheel and what it requires in a folder, as with `pip install --target`."""
    subprocess.run([*PIP, *INSTALL, "--target", str(folder), str(wheel)], check=True)
    link_required(folder, extra="tools")
    with open(folder / "odradek" / "__init__.py", "a") as file:
        file.write(REPORT)
    return folder


@pytest.fixture(scope="module")
def copies(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Copies:
    folder = tmp_path_factory.mktemp("copies")
    return Copies(install(wheel, folder / "own"), install(wheel, folder / "other"))


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter without any package, but for those of the user."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False, symlinks=True, system_site_packages=True)
    return str(folder / "bin" / "python")


@pytest.fixture(scope="module")
def beside(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter with a third copy of its own, which is not to be served."""
    folder = make_environment(tmp_path_factory.mktemp("beside") / "environment", wheel)
    with open(site_packages_of(folder) / "odradek" / "__init__.py", "a") as file:
        file.write(REPORT)
    return str(folder / "bin" / "python")


def prepend(folder: Path) -> str:
    return f"import sys\nsys.path.insert(0, {str(folder)!r})\n"


def start_with(how: str, copies: Copies, bare: str, beside: str, folder: Path) -> Start:
    """The ways in which Python finds a package.  Raises KeyError."""
    own, other = copies
    site_packages = site_packages_of(Path(bare).parents[1]).relative_to(Path(bare).parents[1])
    (folder / "base" / site_packages).parent.mkdir(parents=True)
    (folder / "base" / site_packages).symlink_to(own)
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "odradek").symlink_to(other / "odradek")
    return {
        "PYTHONPATH": Start([bare], environment={"PYTHONPATH": str(own)}),
        "PYTHONPATH, relative": Start([bare], environment={"PYTHONPATH": own.name}, cwd=own.parent),
        "two on PYTHONPATH": Start([bare], environment={"PYTHONPATH": f"{own}:{other}"}),
        "PYTHONPATH, and a venv": Start([beside], environment={"PYTHONPATH": str(own)}),
        "packages of the user": Start([bare], environment={"PYTHONUSERBASE": f"{folder}/base"}),
        "isolated, and sys.path": Start([bare, "-I"], prepend(own)),
        "isolated, sys.path, and a venv": Start([beside, "-I"], prepend(own)),
        "another is put before it later": Start(
            [beside, "-I"], prepend(own) + "import odradek\n" + prepend(other)
        ),
        "another in the working directory": Start(
            [beside, "-I"], prepend(own), cwd=folder / "elsewhere"
        ),
    }[how]


@pytest.mark.parametrize(
    "how",
    [
        pytest.param("PYTHONPATH", marks=pytest.mark.slow),
        pytest.param("PYTHONPATH, relative", marks=pytest.mark.slow),
        pytest.param("two on PYTHONPATH", marks=pytest.mark.slow),
        "PYTHONPATH, and a venv",
        "packages of the user",
        pytest.param("isolated, and sys.path", marks=pytest.mark.slow),
        pytest.param("isolated, sys.path, and a venv", marks=pytest.mark.slow),
        "another is put before it later",
        pytest.param("another in the working directory", marks=pytest.mark.slow),
    ],
)
def test_broker_of_a_test_and_its_worker_are_of_the_package_that_was_imported(
    how: str, copies: Copies, bare: str, beside: str, tmp_path: Path
) -> None:
    start = start_with(how, copies, bare, beside, tmp_path)
    environment = {name: value for name, value in os.environ.items() if "PYTHON" not in name}
    done = subprocess.run(
        [*start.python, "-c", start.lines + BROKER],
        cwd=start.cwd or tmp_path,
        env={**environment, **start.environment, SEEN: str(tmp_path / "seen")},
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    served = served_by(tmp_path / "seen")
    assert {Path(folder).resolve() for folder, _ in served} == {copies.own / "odradek"}
    started = [words for _, words in served if " start " in words]
    assert len(started) == 1
    assert any("compaction.worker" in words for _, words in served)


def served_by(seen: Path) -> list[tuple[str, str]]:
    """The folder of the package and the command line of each process."""
    return [tuple(json.loads(line)) for line in seen.read_text().splitlines()]


def test_cluster_on_pythonpath_starts_brokers_of_its_own(
    copies: Copies, beside: str, tmp_path: Path
) -> None:
    with LoggedProcess(
        [beside, "-m", "odradek", "cluster", "--brokers", "2", "--port", "0", "--data", "data"],
        log=tmp_path / "cluster.log",
        folder=tmp_path,
        environment={"PYTHONPATH": str(copies.own), SEEN: str(tmp_path / "seen")},
    ) as process:
        process.wait_for_line("odradek cluster is ready", timeout_s=READY_TIMEOUT_S)
    served = served_by(tmp_path / "seen")
    assert {folder for folder, _ in served} == {str(copies.own / "odradek")}
    assert len([words for _, words in served if " start " in words]) == 2


def test_demo_on_pythonpath_starts_copiers_of_its_own(
    copies: Copies, beside: str, tmp_path: Path
) -> None:
    environment = {name: value for name, value in os.environ.items() if "PYTHON" not in name}
    done = subprocess.run(
        [beside, "-m", "odradek", "demo", "eos"],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(copies.own), SEEN: str(tmp_path / "seen")},
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    served = served_by(tmp_path / "seen")
    assert {folder for folder, _ in served} == {str(copies.own / "odradek")}
    assert any("demo.copier" in words for _, words in served)
