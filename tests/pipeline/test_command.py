"""Errors of the command before Spark starts: libraries, files and arguments."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.pipeline.cli import BAD_FILE, build_parser, main
from odradek.pipeline.jobs.reachability import AvailabilityReporter
from odradek.pipeline.spec.ends import Cluster
from odradek.pipeline.spec.field_types import Length, Part
from tests.pipeline.mirroring import file
from tests.pipeline.pipeline_files import GOOD
from tests.support.ports import free_port

BLOCKED = """\
import sys
for name in {names!r}:
    sys.modules[name] = None
from odradek.command import main
sys.exit(main({arguments!r}))
"""
EXTRA = ("pydantic", "pyspark", "py4j", "pandas", "pyarrow", "rich", "tree_sitter", "matplotlib")


def without(names: tuple[str, ...], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process without these libraries."""
    code = BLOCKED.format(names=names, arguments=["pipeline", *arguments])
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
        timeout=500,
    )


def test_missing_dependencies_are_reported_with_the_extra_to_install(tmp_path: Path) -> None:
    path = tmp_path / "good.toml"
    path.write_text(GOOD)
    helped = without(EXTRA, "--help")
    assert helped.returncode == 0
    assert helped.stdout.startswith("usage: odradek pipeline")
    install = "pip install '.[pipeline]' in a clone of Odradek\n"
    for names, words, library in (
        (EXTRA, ("check", str(path)), "tree_sitter"),
        (EXTRA, ("run", str(path)), "tree_sitter"),
        (EXTRA, ("mirror", str(path)), "tree_sitter"),
        (EXTRA, ("train", str(path), "model", "--text", "a", "--class", "b"), "tree_sitter"),
        (("pyspark",), ("run", str(path)), "pyspark"),
        (("rich",), ("run", str(path)), "rich"),
        (("tree_sitter",), ("check", str(path)), "tree_sitter"),
    ):
        done = without(names, *words)
        assert done.returncode == 1
        assert done.stderr == f"this command needs the library {library}: {install}"


def test_missing_file_and_file_of_another_command_are_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "my.toml"
    for command in ("check", "run", "mirror"):
        assert main([command, str(path)]) == BAD_FILE
        assert capsys.readouterr().err == f"{path}: No such file or directory\n"
    path.write_text(file("localhost:1", "localhost:2", name="m", pattern="t"))
    assert main(["check", str(path)]) == BAD_FILE
    message = (
        "a file with a table [mirror] is for: odradek pipeline mirror, with --check to check it"
    )
    assert capsys.readouterr().err == f"{path}: {message}\n"
    path.write_text(GOOD)
    assert main(["mirror", str(path), "--check"]) == BAD_FILE
    message = "a file with a table [pipeline] is for: odradek pipeline run, or check"
    assert capsys.readouterr().err == f"{path}: {message}\n"


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ("9404", ("127.0.0.1", 9404)),
        ("0.0.0.0:9404", ("0.0.0.0", 9404)),
        ("metrics.example.org:1", ("metrics.example.org", 1)),
        ("[::]:65535", ("::", 65_535)),
        ("[fe80::1%eth0]:9404", ("fe80::1%eth0", 9404)),
    ],
)
def test_metrics_port_may_have_a_host(given: str, place: tuple[str, int]) -> None:
    for command in ("run", "mirror"):
        parsed = build_parser().parse_args([command, "my.toml", "--metrics-port", given])
        assert parsed.metrics_port == place


@pytest.mark.parametrize(
    "given",
    ["", "0", "65536", "host", "host:", ":9404", "::1:9404", "[::1]", "a b:1", "h:1:2", "²"],
)
def test_invalid_metrics_port_is_wrong_usage(
    given: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["run", "my.toml", "--metrics-port", given])
    assert "argument --metrics-port: " in capsys.readouterr().err


class Timed(Part):
    """A table with a duration."""

    length: Length


@pytest.mark.parametrize(
    ("given", "held"),
    [
        ("2s", "2 seconds"),
        ("20 secs", "20 seconds"),
        ("1 second", "1 second"),
        ("1 seconds", "1 second"),
        ("90 Minutes", "90 minutes"),
        ("5min", "5 minutes"),
        ("5m", "5 minutes"),
        ("500ms", "500 milliseconds"),
        ("1h", "1 hour"),
        ("7 d", "7 days"),
        ("1h30m", "90 minutes"),
        ("1 hour 30 minutes 5 s", "5405 seconds"),
        ("24 hours", "24 hours"),
        ("PT20S", "20 seconds"),
        ("PT1H30M", "90 minutes"),
        ("P1D", "1 day"),
        ("p1dt12h", "36 hours"),
        ("2 weeks", "2 weeks"),
        ("P1W", "1 week"),
        ("1w1d", "8 days"),
    ],
)
def test_durations_are_accepted_in_common_spellings(given: str, held: str) -> None:
    assert Timed.model_validate({"length": given}).length == held


@pytest.mark.parametrize(
    "given",
    [
        "PT",
        "P1",
        "P1Y",
        "P1DT",
        "PT1.5S",
        "2",
        "s",
        "1.5 s",
        "-1 s",
        "2 months",
        "2 s s",
        "1h 2",
        "",
    ],
)
def test_invalid_duration_is_an_error_with_an_example(given: str) -> None:
    with pytest.raises(ValueError, match=r"write numbers and units, as '20 seconds', '1h30m' or"):
        Timed.model_validate({"length": given})


def test_unavailable_cluster_is_reported_once_and_its_return_once() -> None:
    address = f"127.0.0.1:{free_port()}"
    lines: list[str] = []
    times_s = iter([1_767_225_600.0, 1_767_225_642.4])
    here = socket.create_server(("127.0.0.1", 0))
    other = Cluster(bootstrap_servers=f"127.0.0.1:{here.getsockname()[1]}")
    main_cluster = Cluster(bootstrap_servers=address)
    clusters = [("main", main_cluster), ("other", other)]
    available: dict[str, bool] = {}
    reporter = AvailabilityReporter(
        clusters, lines.append, available.__setitem__, lambda: next(times_s)
    )
    reporter.check()
    reporter.check()
    assert len(lines) == 1
    assert available == {"main": False, "other": True}
    assert lines[0].startswith("WARN cluster main is unavailable since ")
    assert lines[0].endswith(f": {address}: Connection refused")
    host, _, port = address.rpartition(":")
    with socket.create_server((host, int(port))):
        reporter.check()
        reporter.check()
    assert lines[1:] == ["cluster main is available again after 42 s"]
    assert available == {"main": True, "other": True}
    here.close()
