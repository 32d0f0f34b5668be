"""Repository rules, checked by reading the code."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("broker", "controller", "pipeline", "protocol", "runtime", "storage")
"""Folders at the top level; each is imported as `odradek.<package>`, through a symbolic link."""
ROOMS = ("broker", "controller", "odradek", "protocol", "runtime", "storage")
FILES = sorted(
    path
    for room in ROOMS
    for path in (ROOT / room).rglob("*.py")
    if not any((ROOT / "odradek" / package) in path.parents for package in PACKAGES)
)
TESTS = sorted(
    path
    for folder in ("tests", "bench")
    for path in (ROOT / folder).rglob("*.py")
    if "node_modules" not in path.parts
)

CORES = (
    "protocol",
    "storage",
    "controller/decide",
    "controller/coordination/commits.py",
    "controller/coordination/journal.py",
    "controller/coordination/salvage.py",
    "controller/coordination/state_files.py",
    "controller/coordination/tree.py",
    "controller/image.py",
    "controller/znodes/broker_znode.py",
    "controller/znodes/config_znodes.py",
    "controller/control_requests.py",
    "controller/rebuild.py",
    "controller/znodes/zk_data.py",
    "broker/compaction/backoff.py",
    "broker/group/classic/admission.py",
    "broker/group/replay.py",
    "broker/group/classic/protocol.py",
    "broker/group/consumer",
    "broker/group/consumer/assignors.py",
    "broker/group/consumer/model.py",
    "broker/group/consumer/range_assignor.py",
    "broker/group/consumer/reconcile.py",
    "broker/group/consumer/subscription_regex.py",
    "broker/group/consumer/target.py",
    "broker/group/consumer/uniform.py",
    "broker/group/consumer/uniform_heterogeneous.py",
    "broker/group/classic/events.py",
    "broker/group/limits.py",
    "broker/group/loader.py",
    "broker/group/offsets.py",
    "broker/group/classic/rebalance.py",
    "broker/group/records.py",
    "broker/group/classic/state.py",
    "broker/replication/leader.py",
    "broker/replication/fetch_session.py",
)
EDGES = ("broker/group/consumer/service.py", "storage/manager.py", "storage/compaction/worker.py")
BANNED_IN_CORES = {"asyncio", "logging", "os", "random", "secrets", "socket", "threading", "time"}

POLLS_A_STRANGER = {"tests/scripts/talk.py"}
"""It waits for a broker that we did not write, which tells nobody when it has settled."""

LONG_FUNCTION_LINES = 60
LONG_FILE_LINES = 800


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


def is_core(path: Path) -> bool:
    name = relative(path)
    return name not in EDGES and any(name == core or name.startswith(core + "/") for core in CORES)


def imports_of(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("path", FILES + TESTS, ids=relative)
def test_no_file_is_longer_than_eight_hundred_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LONG_FILE_LINES


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_no_function_is_longer_than_sixty_lines(path: Path) -> None:
    long = [
        (node.name, node.end_lineno - node.lineno + 1)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > LONG_FUNCTION_LINES
    ]
    assert not long


@pytest.mark.parametrize("path", [path for path in FILES if is_core(path)], ids=relative)
def test_a_core_reaches_nothing_outside(path: Path) -> None:
    assert not imports_of(tree_of(path)) & BANNED_IN_CORES
    assert "uuid4" not in path.read_text()


@pytest.mark.parametrize("package", PACKAGES)
def test_package_is_linked_into_odradek(package: str) -> None:
    link = ROOT / "odradek" / package
    assert link.is_symlink()
    assert link.readlink() == Path("..", package)


@pytest.mark.parametrize(
    "path", [*FILES, *TESTS, *sorted((ROOT / "pipeline").rglob("*.py"))], ids=relative
)
def test_packages_are_imported_as_odradek_only(path: Path) -> None:
    """A module under two names is loaded twice, and its classes are no longer the same."""
    assert not imports_of(tree_of(path)) & set(PACKAGES)


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_no_dynamic_code_comes_from_data(path: Path) -> None:
    called = {
        node.func.id
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    allowed = {"exec", "compile"} if relative(path) == "protocol/generated.py" else set[str]()
    assert not called & ({"eval", "exec", "compile", "__import__"} - allowed)
    assert not imports_of(tree_of(path)) & {"pickle", "marshal", "shelve"}


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_handlers_and_cores_are_plain_functions(path: Path) -> None:
    if not (is_core(path) or relative(path).startswith("broker/handlers/")):
        return
    assert not [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.AsyncFunctionDef)]


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_names_say_what_a_file_is(path: Path) -> None:
    assert path.stem not in {"utils", "util", "helpers", "helper", "common", "base", "misc"}
    managers = [
        node.name
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef) and node.name.endswith("Manager")
    ]
    assert not managers or relative(path) == "storage/manager.py"


@pytest.mark.parametrize("path", FILES + TESTS, ids=relative)
def test_nothing_is_left_for_later_in_a_comment(path: Path) -> None:
    marks = "|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK"))
    assert not re.search(rf"\b({marks})\b", path.read_text())


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_every_public_function_of_a_room_has_a_docstring(path: Path) -> None:
    missing = [
        node.name
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and ast.get_docstring(node) is None
        and not _is_local(path, node)
        and not _is_declaration(node)
    ]
    assert not missing


def _is_declaration(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """Whether it is a wire structure: its module and its fields tell what it is."""
    return any(
        getattr(decorator.func if isinstance(decorator, ast.Call) else decorator, "id", "")
        in ("message", "nested")
        for decorator in node.decorator_list
    )


def _is_local(path: Path, wanted: ast.AST) -> bool:
    """Whether a definition lies inside a function: nobody else can see it."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for inner in ast.walk(node):
                same = getattr(inner, "lineno", None) == getattr(wanted, "lineno", 0)
                if inner is not node and same and type(inner) is type(wanted):
                    return True
    return False


@pytest.mark.parametrize("path", TESTS, ids=relative)
def test_no_test_sleeps_or_skips(path: Path) -> None:
    text = path.read_text()
    # Spelled apart, so that this file passes its own rule.
    leaves_out = r"mark\.sk" + r"ip|pytest\.sk" + r"ip|importor" + r"skip|mark\.xf" + "ail"
    if relative(path).startswith("tests/"):
        if relative(path) not in POLLS_A_STRANGER:
            assert not re.search(r"\btime\.sleep\(|asyncio\.sleep\([^0)]", text)
        assert not re.search(leaves_out, text)


def test_nothing_that_is_committed_tells_of_a_machine() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout.split("\0")
    # Spelled apart, so that this file passes its own rule.
    marks = ["/wo" + "rk/", "/ro" + "ot/", "pypi" + ".org", "registry.npmjs" + ".org"]
    marks += ["repo.maven.apache" + ".org", "proxy.golang" + ".org"]
    found = [
        (name, mark)
        for name in listed
        if name and (ROOT / name).is_file()
        for mark in marks
        if mark in (ROOT / name).read_bytes().decode("utf-8", "replace")
    ]
    assert not found


def test_assertions_are_on() -> None:
    assert __debug__
