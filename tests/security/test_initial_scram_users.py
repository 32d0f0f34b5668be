"""Users of SCRAM that `odradek storage format` stores."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from odradek.container.names import EnvironmentRefused
from odradek.container.node_data import store_users
from odradek.container.sasl import NewScramUser
from odradek.controller.coordination.salvage import replace_all
from odradek.controller.coordination.session import Create
from odradek.controller.coordination.state_files import journal_path, read_tree
from odradek.controller.coordination.tree import Tree
from odradek.runtime.system_files import SystemFileSystem
from odradek.tools.errors import ToolError
from odradek.tools.initial_scram_users import parse_add_scram, scram_user, store_initial_users
from tests.odradek.console_tools import our_tool_here

FILES = SystemFileSystem()


@pytest.mark.parametrize("fields", ["password=geheim", "name=,password=geheim"])
def test_user_without_a_name_is_refused(fields: str) -> None:
    with pytest.raises(ToolError, match="You must supply 'name' to add-scram") as error:
        parse_add_scram(f"SCRAM-SHA-512=[{fields}]")
    assert "geheim" not in str(error.value)


@pytest.mark.parametrize("name", [".", ".."])
def test_user_whom_no_broker_can_store_is_refused(name: str) -> None:
    refusal = f"A user of SCRAM must not be called '{name}'"
    with pytest.raises(ToolError, match=re.escape(refusal)):
        parse_add_scram(f"SCRAM-SHA-512=[name={name},password=geheim]")
    users = [NewScramUser(name, "geheim", "SCRAM-SHA-512")]
    with pytest.raises(EnvironmentRefused, match=re.escape(refusal)):
        store_users({"zookeeper.connect": "absent:1"}, users)


def format_with_user(folder: Path, log_dirs: str, *flags: str) -> tuple[int, str]:
    """(exit code, last line) of a format in `folder` that adds alice."""
    config = folder / "server.properties"
    config.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        "controller.quorum.voters=1@localhost:9093\n"
        f"listeners=PLAINTEXT://:9092,CONTROLLER://:9093\nlog.dirs={log_dirs}\n"
    )
    user = ("--add-scram", "SCRAM-SHA-512=[name=alice,password=alice-secret]")
    cluster = ("--cluster-id", "b2RyYWRlay10ZXN0cy0wMQ")
    result = our_tool_here("storage", ["format", "--config", str(config), *cluster, *user, *flags])
    return result.exit_code, (result.output + result.errors).splitlines()[-1]


def user_paths(folder: Path) -> list[str]:
    """The users in the coordination files of a directory."""
    nodes = read_tree(FILES, str(folder)).tree.nodes
    return [path for path in nodes if path.startswith("/config/users/")]


def test_format_that_fails_writes_no_meta_properties_and_can_be_repeated(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "file" / "b"
    (tmp_path / "file").write_text("")
    exit_code, line = format_with_user(tmp_path, f"{first},{second}")
    assert (exit_code, line) == (1, f"odradek: {second}: Not a directory")
    assert list(first.iterdir()) == []
    (tmp_path / "file").unlink()
    assert format_with_user(tmp_path, f"{first},{second}")[0] == 0
    assert user_paths(first) == ["/config/users/alice"]
    assert all((path / "meta.properties").exists() for path in (first, second))


def test_users_that_a_formatted_directory_does_not_get_are_named_on_stderr(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    assert format_with_user(tmp_path, str(first))[0] == 0
    stored = {path.name: path.read_bytes() for path in first.iterdir()}
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        bob = ("-S", f"{mechanism}=[name=bob,password=bob-secret]", "--ignore-formatted")
        warning = (
            f"odradek storage: {first} is already formatted, these users are not stored: "
            f"bob ({mechanism}). Store them with odradek configs."
        )
        assert format_with_user(tmp_path, str(first), *bob) == (0, warning)
        assert format_with_user(tmp_path, f"{first},{second}", *bob) == (0, warning)
        assert (second / "meta.properties").exists()
    assert {path.name: path.read_bytes() for path in first.iterdir()} == stored
    repeated = format_with_user(tmp_path, str(first), "--ignore-formatted")
    assert repeated == (0, "All of the log directories are already formatted.")
    for path in first.glob("coordination.snapshot.*"):
        path.write_bytes(path.read_bytes()[:-1])
    exit_code, line = format_with_user(tmp_path, str(first), "--ignore-formatted")
    assert exit_code == 0
    assert "alice (SCRAM-SHA-512)" in line


def test_format_on_a_full_disk_names_the_file(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    # A write to it fails as on a full disk.
    (data / "meta.properties.tmp").symlink_to("/dev/full")
    full = f"odradek: {data}/meta.properties: No space left on device"
    assert format_with_user(tmp_path, str(data)) == (1, full)
    assert format_with_user(tmp_path, str(data))[0] == 0


@pytest.mark.parametrize("left", ["empty journal", "users"])
def test_format_after_an_interrupted_one_stores_the_users(left: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    if left == "users":
        store_initial_users(str(data), [scram_user("bob", "SCRAM-SHA-256", "bob-secret")])
    else:
        Path(journal_path(str(data), 7)).touch()
    assert format_with_user(tmp_path, str(data))[0] == 0
    assert user_paths(data) == ["/config/users/alice"]
    assert (data / "meta.properties").exists()


@pytest.mark.parametrize("state", ["cluster", "damaged"])
def test_format_beside_the_state_of_a_cluster_is_refused_and_writes_nothing(
    state: str, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    tree = Tree()
    tree.open_session(1000)
    tree.transact(tree.last_session_id, [Create("/brokers")], 0)
    replace_all(FILES, str(data), tree, "")
    if state == "damaged":
        for path in data.glob("coordination.snapshot.*"):
            path.write_bytes(path.read_bytes()[:-1])
    before = sorted(data.iterdir())
    exit_code, line = format_with_user(tmp_path, str(data))
    assert (exit_code, line) == (
        1,
        f"{data} has the metadata of a cluster: users are stored with odradek configs",
    )
    assert sorted(data.iterdir()) == before
    assert format_with_user(tmp_path, str(data), "--ignore-formatted") == (exit_code, line)
