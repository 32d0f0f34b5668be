"""What may import what: no cycle, one name a module, and the world outside at few places."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.repository.graph import cycles
from tests.repository.sources import PACKAGES, ROOT, Source, everything, imported_modules, product

THIS_FILE: Final = "tests/repository/test_imports.py"
"""It has strings with imports that it forbids."""
OUTSIDE: Final = frozenset(
    {"asyncio", "concurrent", "fcntl", "mmap", "multiprocessing", "os", "random", "resource"}
    | {"secrets", "select", "signal", "socket", "ssl", "subprocess", "threading", "time"}
)
"""Modules that reach the operating system, the clock, randomness or other threads."""
MAY_REACH_OUTSIDE: Final = (
    "broker/compaction/compaction.py",
    "broker/compaction/context.py",
    "broker/compaction/worker_process.py",
    "broker/interbroker/",
    "broker/monitoring/http_listener.py",
    "broker/monitoring/node_metrics.py",
    "broker/monitoring/process_metrics.py",
    "broker/node/",
    "broker/purgatory.py",
    "broker/security/sasl/oauthbearer_endpoint.py",
    "broker/security/tls/contexts.py",
    "broker/security/tls/tls_listener.py",
    "broker/security/tls/tls_transport.py",
    "broker/server/",
    "broker/settings/load.py",
    "controller/coordination/server/client_listener.py",
    "controller/coordination/zookeeper_connection.py",
    "odradek/",
    "pipeline/",
    "protocol/frames.py",
    "runtime/",
    "storage/compaction/worker.py",
)
"""All other modules receive time as `now_ms`, files and randomness through `runtime`."""
MAY_LOG: Final = ("broker/", "controller/", "odradek/", "pipeline/", "runtime/")
DOES_NOT_LOG: Final = ("controller/coordination/", "controller/decide/", "controller/image/")
MAY_BE_ASYNC: Final = ("broker/", "controller/", "odradek/", "pipeline/", "runtime/")
"""What waits: on asyncio, or advanced by `runtime/work.py`, which needs no event loop."""
IS_NOT_ASYNC: Final = (
    "broker/group/classic/",
    "broker/settings/",
    "broker/transaction/decisions.py",
    "broker/transaction/decisions.py",
    "controller/coordination/",
    "controller/decide/",
)
"""Decisions, and what others wait for."""
STARTS_PYTHON: Final = ("odradek/launcher.py", "pipeline/spark/session.py")
"""The second one names the interpreter of Spark's workers."""
GENERATES_CODE: Final = ("protocol/generated.py",)
BARE_MODULE: Final = re.compile(rf"(?:{'|'.join(PACKAGES)})(?:\.[a-z_]\w*)+")
IMPORT_IN_TEXT: Final = re.compile(r"^\s*(?:import|from)\s+([\w.]+)", re.M)


def offending_imports(source: Source, modules: frozenset[str]) -> set[str]:
    """Those of the top-level `modules` that the file imports."""
    return {name.split(".")[0] for name in imported_modules(source)} & modules


def modules_in_strings(source: Source) -> Iterator[str]:
    """Bare names of modules in strings that import by name: a whole string, or an import in it."""
    for node in source.nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for name in (node.value, *IMPORT_IN_TEXT.findall(node.value)):
                path = ROOT / name.replace(".", "/")
                if BARE_MODULE.fullmatch(name) and (path.is_dir() or Path(f"{path}.py").is_file()):
                    yield name


def import_graph(sources: tuple[Source, ...]) -> dict[str, set[str]]:
    """File -> files that it imports anywhere in its text, also in functions and for types only."""
    files = {source.module: source.name for source in sources}
    return {
        source.name: {files[name] for name in imported_modules(source) if name in files}
        - {source.name}
        for source in sources
    }


def test_cycle_search_finds_groups_that_reach_each_other() -> None:
    graph = {"a": "b", "b": "c", "c": "a", "d": "ae", "e": "e", "f": "", "g": "h", "h": "gf"}
    assert cycles(graph) == [["a", "b", "c"], ["e"], ["g", "h"]]


def test_no_import_cycle() -> None:
    assert not cycles(import_graph(everything()))


def test_packages_are_linked_into_odradek() -> None:
    for package in PACKAGES:
        link = ROOT / "odradek" / package
        assert link.is_symlink()
        assert link.readlink() == Path("..", package)


def test_packages_are_imported_as_odradek_only() -> None:
    """A module under two names is loaded twice, and its classes are no longer the same."""
    imports_of_files = {
        file.name: offending_imports(file, frozenset(PACKAGES)) | set(modules_in_strings(file))
        for file in everything()
        if file.name != THIS_FILE
    }
    assert not {name: names for name, names in imports_of_files.items() if names}


def test_bare_module_names_in_strings_are_found() -> None:
    class Given(Source):
        text = (
            "import_module('storage.log.log')\nrun('-c', 'import time\\nimport storage.log')\n"
            "NO_MODULE = 'broker.id'\nPROSE = 'as storage.log does'\n"
            "RIGHT = 'odradek.storage.log'\n"
        )

    assert list(modules_in_strings(Given("given.py"))) == ["storage.log.log", "storage.log"]


def test_outside_is_reached_at_listed_places_only() -> None:
    imports_of_files = {
        file.name: offending_imports(file, OUTSIDE)
        for file in product()
        if not file.is_in(*MAY_REACH_OUTSIDE)
    }
    assert not {name: names for name, names in imports_of_files.items() if names}
    random_ids = [
        file.name
        for file in product()
        if "uuid4" in file.text and not file.is_in("runtime/", "pipeline/", "odradek/")
    ]
    assert not random_ids


def test_layers_that_report_do_not_log() -> None:
    offenders = [
        file.name
        for file in product()
        if (not file.is_in(*MAY_LOG) or file.is_in(*DOES_NOT_LOG))
        and offending_imports(file, frozenset({"logging"}))
    ]
    assert not offenders


def test_decisions_are_plain_functions() -> None:
    offenders = [
        f"{file.name}:{node.lineno}"
        for file in product()
        if not file.is_in(*MAY_BE_ASYNC) or file.is_in(*IS_NOT_ASYNC)
        for node in file.nodes
        if isinstance(node, ast.AsyncFunctionDef)
    ]
    assert not offenders


def test_modules_of_the_package_are_started_by_the_launcher() -> None:
    """An interpreter that is started by itself may find another version of the package."""
    offenders = [
        file.name
        for file in product()
        if not file.is_in(*STARTS_PYTHON)
        and any(
            isinstance(node, ast.Attribute) and node.attr == "executable" for node in file.nodes
        )
    ]
    assert not offenders


def test_no_code_comes_from_data() -> None:
    banned = {"eval", "exec", "compile", "__import__"}
    calls = [
        f"{file.name}:{node.lineno}: {node.func.id}"
        for file in product()
        if not file.is_in(*GENERATES_CODE)
        for node in file.nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if node.func.id in banned
    ]
    assert not calls
    serializers = frozenset({"pickle", "marshal", "shelve"})
    imports_of_files = {file.name: offending_imports(file, serializers) for file in product()}
    assert not {name: names for name, names in imports_of_files.items() if names}


COUNTS_REFERENCES: Final = {"getrefcount", "get_referrers"}


def test_no_decision_rests_on_the_number_of_references() -> None:
    """Releases of CPython count them differently: 3.14 borrows those of local variables."""
    offenders = [
        f"{file.name}:{node.lineno}"
        for file in product()
        for node in file.nodes
        if (isinstance(node, ast.Attribute) and node.attr in COUNTS_REFERENCES)
        or (isinstance(node, ast.alias) and node.name in COUNTS_REFERENCES)
    ]
    assert not offenders


PARSES_OWN_TEXT: Final = (
    "odradek/bounded_parsing.py",
    "pipeline/cases/run.py",
    "odradek/demo/pipeline/",
    "pipeline/transforms/scoring.py",
    "storage/compaction/wire.py",
)
"""What they parse was written by this program, or by Spark for it; the first is what all others
use: the parsers of the standard library raise more than ValueError."""


def bare_parsers(source: Source) -> list[str]:
    """Where a file uses a parser of JSON or TOML of the standard library."""
    return [
        f"{source.name}:{node.lineno}: {node.value.id}.{node.attr}"
        for node in source.nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if (node.value.id in ("json", "tomllib") and node.attr in ("load", "loads"))
        or node.attr == "JSONDecoder"
    ]


def test_text_of_others_is_parsed_within_bounds() -> None:
    calls = [
        place
        for file in product()
        if not file.is_in(*PARSES_OWN_TEXT)
        for place in bare_parsers(file)
    ]
    assert not calls


PRIVATE_OF_SPARK: Final = ("_jvm", "_jsc", "_jdf", "_jsparkSession", "_gateway")


def test_private_names_of_pyspark_are_used_at_one_place() -> None:
    users = {
        file.name
        for file in product()
        for node in file.nodes
        if isinstance(node, ast.Attribute) and node.attr in PRIVATE_OF_SPARK
    }
    # The second one starts the Java process.
    assert users == {
        "pipeline/spark/gateway.py",
        "pipeline/spark/java.py",
        "pipeline/spark/session.py",
    }
