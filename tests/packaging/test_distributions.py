"""The source distribution and the wheel are built, read, installed and started."""

from __future__ import annotations

import subprocess
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

from odradek.protocol.messages.api_versions import ApiVersionsRequest
from tests.packaging.bare_environment import make_environment
from tests.packaging.check_release import newest_version, top_level_names
from tests.support.ports import free_port
from tests.support.processes import LoggedProcess
from tests.support.tool_cache import PROJECT
from tests.support.wire import Wire

READY_TIMEOUT_S = 60.0
PACKAGES = ("broker", "controller", "pipeline", "protocol", "runtime", "storage")


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, without extras."""
    return make_environment(tmp_path_factory.mktemp("bare") / "environment", wheel)


@contextmanager
def started(command: list[str], folder: Path, environment: Mapping[str, str]) -> Iterator[int]:
    """A broker whose working directory is `folder`; yields its port once it is ready."""
    port = free_port()
    process = LoggedProcess(
        [*command, "start", "--override", f"listeners=PLAINTEXT://127.0.0.1:{port}"],
        log=folder / "broker.log",
        folder=folder,
        environment={"PYTHONUNBUFFERED": "1", **environment},
    )
    try:
        line = process.wait_for_line("odradek is ready", timeout_s=READY_TIMEOUT_S)
        assert line.startswith(
            f"odradek is ready on 127.0.0.1:{port}; data in {folder}/data; "
            "no settings file, so defaults -- try: "
        )
        yield port
        assert process.stop(timeout_s=READY_TIMEOUT_S) == 0
    finally:
        process.kill()


def test_wheel_has_one_top_level_name(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (top_level,) = (name for name in names if name.endswith(".dist-info/top_level.txt"))
        assert archive.read(top_level).split() == [b"odradek"]
    assert top_level_names(wheel) == {"odradek"}


def test_distributions_hold_every_module_as_a_file(built: Path, wheel: Path) -> None:
    modules = {
        path.relative_to(PROJECT).as_posix()
        for package in PACKAGES
        for path in (PROJECT / package).rglob("*.py")
    }
    with zipfile.ZipFile(wheel) as archive:
        assert {f"odradek/{module}" for module in modules} <= set(archive.namelist())
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        files = {member.name.split("/", 1)[-1] for member in archive if member.isfile()}
        assert not [member.name for member in archive if member.issym()]
    assert {f"odradek/{module}" for module in modules} <= files


def test_wheel_has_licence_type_marker_and_data_files(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = read_metadata(archive)
        (licence,) = (name for name in names if name.endswith("/licenses/LICENSE"))
        assert archive.read(licence) == (PROJECT / "LICENSE").read_bytes()
    data = {
        "py.typed",
        "broker/settings/definitions.tsv",
        "demo/pipeline/payments.toml",
        "tools/arguments.tsv",
        "tools/console/properties.tsv",
        "tools/error_texts.tsv",
    }
    assert {f"odradek/{name}" for name in data} <= names
    assert metadata["License-Expression"] == "Apache-2.0"
    labels = [url.split(",")[0] for url in metadata.get_all("Project-URL", [])]
    assert labels == ["Homepage", "Source", "Issues", "Changelog"]


def test_wheel_publishes_no_extra_for_work_on_the_project(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        extras = set(read_metadata(archive).get_all("Provides-Extra", []))
    assert extras == {"console", "jks", "pipeline", "s3", "tools"}


def read_metadata(archive: zipfile.ZipFile) -> Message:
    """The METADATA of a wheel."""
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(archive.read(name).decode())


def test_command_without_extras_starts_a_broker_in_an_empty_folder(
    installed: Path, tmp_path: Path
) -> None:
    command = [str(installed / "bin" / "odradek")]
    with started(command, tmp_path, {}) as port, Wire(f"127.0.0.1:{port}") as connection:
        connection.call(ApiVersionsRequest(), 0)
    assert (tmp_path / "data" / "meta.properties").is_file()


def test_command_without_extras_prints_completion_scripts(installed: Path) -> None:
    command = [str(installed / "bin" / "odradek"), "completion", "bash"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60.0)
    assert "--metrics-port" in done.stdout, "options of pipelines, too"


def test_broker_starts_beside_a_project_with_packages_of_the_same_names(
    installed: Path, tmp_path: Path
) -> None:
    for package in ("broker", "runtime", "controller"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise ImportError('of the project')\n")
    for module in ("storage", "protocol", "pipeline"):
        (tmp_path / f"{module}.py").write_text("raise ImportError('of the project')\n")
    python = [str(installed / "bin" / "python"), "-m", "odradek"]
    # The working directory comes first in the path of `python -m`, and of PYTHONPATH.
    with started(python, tmp_path, {"PYTHONPATH": str(tmp_path)}):
        pass
    own = subprocess.run(
        [python[0], "-c", "import storage"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "ImportError: of the project" in own.stderr


def test_newest_version_is_that_of_the_first_numbered_entry() -> None:
    assert newest_version("# C\n## [Unreleased]\n") is None
    assert newest_version("# C\n## [Unreleased]\n## [0.2.0] - x\n## [0.1.0]\n") == "0.2.0"
