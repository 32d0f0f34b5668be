"""`odradek storage` beside Apache Kafka's StorageTool: the same lines and exit codes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from odradek.runtime.system_files import SystemFileSystem
from odradek.storage.checkpoints.meta_properties import read_meta_properties
from odradek.tools.storage import random_uuid
from tests.odradek.console_tools import ApacheTools, Tool, our_tool_here
from tests.odradek.topics_tools import as_kafka_exits

CLUSTER_ID = "b2RyYWRlay10ZXN0cy0wMQ"
DIRECTORY_ID = "MvDxzVmcRsaTz33bUuRU6A"
SERVER = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "log.dirs": "FOLDER/server",
}
DYNAMIC = {
    **{name: text for name, text in SERVER.items() if name != "controller.quorum.voters"},
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "log.dirs": "FOLDER/dynamic",
}
FILES: Mapping[str, Mapping[str, str]] = {
    "server": SERVER,
    "other": {**SERVER, "node.id": "2", "controller.quorum.voters": "2@localhost:9093"},
    "jbod": {**SERVER, "log.dirs": "FOLDER/a,FOLDER/b", "metadata.log.dir": "FOLDER/metadata"},
    "more": {
        **SERVER,
        "log.dirs": "FOLDER/a,FOLDER/b,FOLDER/c",
        "metadata.log.dir": "FOLDER/metadata",
    },
    "dynamic": DYNAMIC,
    "voter": {**DYNAMIC, "log.dirs": "FOLDER/voter"},
    "stranger": {**DYNAMIC, "log.dirs": "FOLDER/stranger"},
    "joining": {**DYNAMIC, "log.dirs": "FOLDER/joining"},
    "broker": {
        "process.roles": "broker",
        "node.id": "3",
        "controller.quorum.bootstrap.servers": "localhost:9093",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": "FOLDER/broker",
    },
    "legacy": {
        "broker.id": "0",
        "zookeeper.connect": "localhost:2181",
        "log.dirs": "FOLDER/legacy",
    },
    "kraft-settings": {**SERVER, "log.dirs": "FOLDER/legacy", "node.id": "1"},
    "legacy-settings": {
        "broker.id": "1",
        "zookeeper.connect": "a:2181",
        "log.dirs": "FOLDER/server",
    },
    "file": {**SERVER, "log.dirs": "FOLDER/file.properties"},
    "users": {**SERVER, "log.dirs": "FOLDER/users"},
    "refused": {**SERVER, "log.dirs": "FOLDER/refused"},
}
WRONG_USERS = (
    *("PLAIN=[name=a,password=b]", "SCRAM-SHA-256=name=a", "SCRAM-SHA-256=[name=a"),
    *("SCRAM-SHA-256=[password=b]", "SCRAM-SHA-512=[name=a]", "SCRAM-SHA-512=[name=a,salt=YQ==]"),
    *("SCRAM-SHA-512=[name=a,saltedpassword=YQ==]", "SCRAM-SHA-512=[name=a,password=b,b=1,a=1]"),
    *(f"SCRAM-SHA-512=[name=a,password=b,iterations={text}]" for text in ("x", "1", "99999")),
)
SCRIPT = (
    "info -c server",
    f"format -t {CLUSTER_ID} -c server",
    "info -c server",
    f"format -t {CLUSTER_ID} -c server",
    f"format --cluster-id {CLUSTER_ID} --config server --ignore-formatted",
    "format -t another -c server -g",
    f"format -t {CLUSTER_ID} -c other -g",
    "info -c jbod",
    f"format -t {CLUSTER_ID} -c jbod --release-version 3.7",
    "info -c jbod",
    "info -c more",
    f"format -t {CLUSTER_ID} -c more -g -r 3.8-IV0",
    "info -c more",
    f"format -t {CLUSTER_ID} -c dynamic",
    f"format -t {CLUSTER_ID} -c dynamic --standalone",
    f"format -t {CLUSTER_ID} -c voter -I 1@localhost:9093:{DIRECTORY_ID}",
    "info -c voter",
    f"format -t {CLUSTER_ID} -c stranger -I 2@localhost:9094:{DIRECTORY_ID}",
    f"format -t {CLUSTER_ID} -c joining -N",
    f"format -t {CLUSTER_ID} -c broker -s",
    f"format -t {CLUSTER_ID} -c broker",
    f"format -t {CLUSTER_ID} -c legacy",
    "info -c legacy",
    "info -c kraft-settings",
    "info -c legacy-settings",
    "info -c file",
    *(f"format -t {CLUSTER_ID} -c refused -S {user}" for user in WRONG_USERS),
    f"format -t {CLUSTER_ID} -c users -S SCRAM-SHA-256=[name=a,password=b] --add-scram "
    "SCRAM-SHA-512=[name=a,iterations=8192,salt=YWJj,saltedpassword=ZGVm]",
)


class Side(NamedTuple):
    """A tool and the folder whose files it uses."""

    tool: Tool
    folder: Path

    def run(self, line: str) -> tuple[int, list[str], list[str]]:
        """(exit code, lines in order, lines of stderr), without folders and random ids."""
        words = [
            str(self.folder / f"{word}.properties") if word in FILES else word
            for word in line.split()
        ]
        result = self.tool("storage", words, "")
        printed = [
            re.sub(
                r"directory\.id=[\w-]{22}",
                "directory.id=ID",
                text.replace(str(self.folder), "FOLDER"),
            )
            for text in (result.output, result.errors)
        ]
        # Kafka formats directories in the order of a hash table, and shows where it was refused.
        lines = sorted(printed[0].splitlines())
        errors = [
            row.removeprefix('Exception in thread "main" java.lang.RuntimeException: ')
            for row in printed[1].splitlines()
            if not row.startswith("\tat ")
        ]
        return as_kafka_exits(result.exit_code), lines, errors


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory, apache_tools: ApacheTools) -> tuple[Side, Side]:
    """Our tool and Apache's, each with a folder of its own."""
    folders = [tmp_path_factory.mktemp(name) for name in ("ours", "apache")]
    for folder in folders:
        for name, settings in FILES.items():
            text = "".join(f"{key}={value}\n" for key, value in settings.items())
            (folder / f"{name}.properties").write_text(text.replace("FOLDER", str(folder)))
        (folder / "legacy").mkdir()
        identity = f"#\nbroker.id=1\nversion=0\ncluster.id={CLUSTER_ID}\n"
        (folder / "legacy" / "meta.properties").write_text(identity)
    return Side(our_tool_here, folders[0]), Side(apache_tools, folders[1])


def test_storage_prints_what_kafka_prints(sides: tuple[Side, Side]) -> None:
    ours, apache = sides
    for line in SCRIPT:
        assert ours.run(line) == apache.run(line), line
    identities = [
        read_meta_properties(SystemFileSystem(), str(side.folder / "voter")) for side in sides
    ]
    assert identities[0] == identities[1]
    assert identities[0] is not None
    assert identities[0].directory_id == DIRECTORY_ID


def test_random_uuid_is_one_of_kafkas_form_and_never_begins_with_a_dash() -> None:
    uuids = {random_uuid() for _ in range(500)}
    assert len(uuids) == 500
    assert all(re.fullmatch(r"\w[\w-]{21}", text) for text in uuids)


@pytest.mark.parametrize(
    ("words", "exit_code", "expected"),
    [
        ("", 2, "required: command"),
        ("format -c x", 2, "--cluster-id/-t"),
        ("info", 2, "--config/-c"),
        ("bogus", 2, "invalid choice: 'bogus'"),
        ("info -c /missing/file", 1, "/missing/file: No such file or directory"),
        ("format -t x -c server -S SCRAM-SHA-256", 1, "equals sign in SCRAM argument '[hidden]'"),
        ("format -t x -c server -S SCRAM-SHA-256=[secret]", 1, "SCRAM component: [hidden]"),
        ("format -t x -c server -S SCRAM-SHA-256=[name=a,salt=?]", 1, "given salt: [hidden]"),
        ("format -t x -c server -r 2.8", 1, "Release 2.8 is not one of 3.0"),
        ("format -t x -c dynamic -I 1@a:1", 1, "1@a:1 of --initial-controllers is not"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_writes_nothing(
    words: str, exit_code: int, expected: str, tmp_path: Path
) -> None:
    for name in ("server", "dynamic"):
        text = "".join(f"{key}={value}\n" for key, value in FILES[name].items())
        (tmp_path / f"{name}.properties").write_text(text.replace("FOLDER", str(tmp_path)))
    arguments = [
        str(tmp_path / f"{word}.properties") if word in FILES else word for word in words.split()
    ]
    before = sorted(tmp_path.iterdir())
    result = our_tool_here("storage", arguments)
    assert result.exit_code == exit_code
    assert expected in result.errors.splitlines()[-1]
    assert sorted(tmp_path.iterdir()) == before
