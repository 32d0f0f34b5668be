"""Connectors: their coordinates, the settings of Ivy, and the report of missing artifacts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from odradek.pipeline.jobs.run import needs
from odradek.pipeline.spark import session
from odradek.pipeline.spark.connectors import (
    KNOWN,
    NEEDS,
    NoConnector,
    cache,
    fallback_version,
    ivy_settings,
    missing,
    packages,
    replaced,
)
from odradek.pipeline.spark.java import StartLog
from odradek.pipeline.spec.load import parse
from odradek.pipeline.topics import absent
from odradek.pipeline.transforms.anomalies import check_versions
from odradek.pipeline.transforms.columns import StepInputError

KAFKA = "spark-sql-kafka-0-10_2.13"
TOKENS = "spark-token-provider-kafka-0-10_2.13"
FOUND = f"""\
:: resolving dependencies :: org.apache.spark#spark-submit-parent-1;1.0
\tfound org.apache.spark#{KAFKA};4.3.0 in odradek-known-4.2.0:{KAFKA}
\tfound org.apache.spark#{TOKENS};4.3.0 in odradek-known-4.0.0:{TOKENS}
\tfound org.apache.kafka#kafka-clients;3.9.0 in central
"""


def unresolved(*names: str) -> str:
    """An excerpt of Ivy's output about missing artifacts."""
    lines = "".join(f"\t\t:: {name}: not found\n\n" for name in names)
    return f"\t\t::          UNRESOLVED DEPENDENCIES         ::\n{lines}\tat java.base/x.y(Z)\n"


def test_fallback_is_the_newest_known_version_up_to_sparks() -> None:
    assert [
        fallback_version(KAFKA, version)
        for version in ("4.0.0", "4.0.5", "4.1.0", "4.2.1", "4.3.0")
    ] == [*("4.0.0", "4.0.0", "4.0.0", "4.2.0", "4.2.0")]
    assert fallback_version(KAFKA, "3.5.1") == "4.0.0"
    for version in ("4.0.0", "4.3.0"):
        settings = ElementTree.fromstring(ivy_settings(version))
        modules = {
            module.attrib["name"]: module.attrib["resolver"] for module in settings.iter("module")
        }
        chains = {chain.attrib["name"]: chain for chain in settings.iter("chain")}
        assert modules.keys() == KNOWN.keys()
        for artifact, resolver in modules.items():
            first, second = chains[resolver]
            assert first.attrib["ref"] == "central", "the version that is wanted comes first"
            (pattern,) = second
            fallback = fallback_version(artifact, version)
            end = f"/{artifact}/{fallback}/{artifact}-{fallback}"
            assert pattern.attrib["pattern"].endswith(f"{end}.[ext]")


def test_packages_are_listed_once_with_full_coordinates() -> None:
    assert packages(["kafka", "jdbc:sqlite", "kafka"], "4.1.2") == [
        f"org.apache.spark:{KAFKA}:4.1.2",
        f"org.apache.spark:{TOKENS}:4.1.2",
        "org.apache.kafka:kafka-clients:3.9.0",
        "org.apache.commons:commons-pool2:2.12.0",
        "org.xerial:sqlite-jdbc:3.46.1.3",
    ]
    assert packages([], "4.0.0") == []
    assert all(packages([need], "4.0.0") for need in NEEDS)


def test_fallback_versions_in_ivys_output_are_reported() -> None:
    assert list(replaced(FOUND)) == [
        f"{KAFKA} 4.3.0 is not on Maven Central: 4.2.0 is used",
        f"{TOKENS} 4.3.0 is not on Maven Central: 4.0.0 is used",
    ]
    assert list(replaced("found org.apache.spark#x;1 in central")) == []


def test_artifacts_that_ivy_did_not_find_are_reported_in_one_line() -> None:
    assert missing("Exception in thread main: OutOfMemoryError", "4.9.0") is None
    message = missing(unresolved(f"org.apache.spark#{KAFKA};4.9.0"), "4.9.0")
    assert message == (
        f"no connector for PySpark 4.9.0 on Maven Central: org.apache.spark:{KAFKA}:4.9.0 is not"
        " there; install 'pyspark<=4.2.0', or put the jars into a folder and say --jars FOLDER"
    )
    message = missing(unresolved("org.x#y;1"), "4.0.0")
    assert message is not None
    assert message.startswith("org.x:y:1 is not on Maven Central; [pipeline.spark] names it")
    away = "Server access error at url https://repo1.maven.org/ (java.net.UnknownHostException)\n"
    message = missing(away + unresolved(f"org.apache.spark#{KAFKA};4.9.0"), "4.9.0")
    assert message is not None
    assert message.startswith("Maven Central cannot be reached, and org.apache.spark:")


def test_jars_and_packages_of_the_file_are_added_to_the_connectors(tmp_path: Path) -> None:
    ours = {"spark.jars.packages": "a:a:1,b:b:2", "spark.sql.shuffle.partitions": "2"}
    theirs = {
        "spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.4.1, a:a:1",
        "spark.jars": "my.jar",
        "spark.sql.shuffle.partitions": 8,
        "spark.ui.enabled": True,
    }
    assert session._merged(ours, theirs) == {
        "spark.jars.packages": "a:a:1,b:b:2,org.apache.hadoop:hadoop-aws:3.4.1",
        "spark.jars": "my.jar",
        "spark.sql.shuffle.partitions": "8",
        "spark.ui.enabled": "true",
    }
    (tmp_path / "kafka.jar").touch()
    ours = session._connectors(["kafka"], tmp_path)
    assert session._merged(ours, theirs)["spark.jars"] == f"{tmp_path}/kafka.jar,my.jar"


def test_cache_is_in_the_users_cache_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert cache() == tmp_path / "cache" / "odradek" / "ivy"
    assert cache().is_dir()
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(NoConnector, match=r"cannot be made: .* set XDG_CACHE_HOME"):
        cache()


def test_output_of_java_is_captured_until_it_has_started(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = StartLog()
    error, output = os.dup(log.err), os.dup(log.out)
    log.close()
    os.write(error, b"noise\n" * 30)
    os.write(output, b"more\n")
    os.close(output)
    while "more" not in log.text() or log.text().count("noise") < 30:
        pass
    log.pass_on()
    os.write(error, b"a warning\n")
    os.close(error)
    log.wait()
    assert capsys.readouterr().err == "a warning\n"


def test_pyspark_4_0_with_a_newer_arrow_is_an_error() -> None:
    check_versions("4.0.0", "20.0.0")
    check_versions("4.3.0", "26.0.1")
    with pytest.raises(StepInputError, match="pip install 'pyarrow<21', or a newer PySpark"):
        check_versions("4.0.5", "21.0.0")


DEAD_LETTERS_ONLY = """
[pipeline]
name = "files"
mode = "batch"
[clusters.main]
bootstrap_servers = "127.0.0.1:9"
[sources.rows]
kind = "files"
path = "in"
format = "text"
schema = "line STRING"
[steps.parsed]
kind = "parse"
from = "rows"
format = "json"
column = "line"
schema = "id BIGINT"
REJECTS
[sinks.out]
kind = "console"
from = "parsed"
"""


def test_dead_letters_alone_need_the_connector_and_an_unused_cluster_does_not(
    tmp_path: Path,
) -> None:
    rejects = 'rejects = "dead"\nrejects_cluster = "main"'
    path = tmp_path / "my.toml"
    assert list(needs(parse(DEAD_LETTERS_ONLY.replace("REJECTS", rejects), path))) == ["kafka"]
    unused = parse(DEAD_LETTERS_ONLY.replace("REJECTS", ""), path)
    assert list(needs(unused)) == []
    without_connector: Any = None
    assert absent(without_connector, unused) is None
