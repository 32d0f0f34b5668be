"""What files and classes are called, and that every name has a user."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from tests.repository.dead_names import dead_names, definitions
from tests.repository.sources import (
    CHECKS,
    PACKAGES,
    PRODUCT,
    ROOT,
    Source,
    everything,
    product,
    python,
)

THIS_FILE: Final = "tests/repository/test_names.py"
OWN_MODULE: Final = re.compile(rf"odradek\.(?:{'|'.join(PACKAGES)}|testing|tools)(?:\.[a-z_]\w*)*")
OWN_FILE: Final = re.compile(
    rf"(?:{'|'.join((*PRODUCT, *CHECKS))})/(?:[\w-]+/)*(?:[\w-]+\.py(?::[\w.]+)?)?"
)
"""A folder, a file, or `path:name`."""
PRONOUNS: Final = {"one", "found", "said", "known", "wanted"}
CAMEL_CASE: Final = re.compile(r"[A-Z]+[a-z]\w*")
SAYS_NOTHING: Final = {"utils", "util", "helpers", "helper", "common", "base", "misc"}
MANAGERS: Final = {"storage/directories/log_manager.py"}
"""Kafka's LogManager."""

WITHOUT_USER: Final = {
    **{
        f"odradek/pytest_plugin.py:{name}": "called by pytest"
        for name in (
            *("pytest_addoption", "pytest_configure", "pytest_runtest_makereport"),
            *("kafka_broker", "kafka_cluster", "kafka_kept_clients"),
        )
    },
    "odradek/testing/": "called by tests of other projects",
    "protocol/messages/": "declarations are found by their API key (`protocol.api_keys`)",
    "pipeline/cases/report.py:assert_cases": "called by tests of other projects",
    "pipeline/spec/reference.py:pipeline_tables": "docs/generate/pipelines.py",
    "pipeline/spec/reference.py:mirror_tables": "docs/generate/pipelines.py",
    "broker/settings/rules.py:rule_text": "the page of settings (docs/generate/settings.py)",
    "protocol/gathered.py:Gathered.add_slice": "called by generated encoders",
    "broker/settings/broker_settings.py:BrokerSettings.of_listener": "TLS and SASL listeners",
    "protocol/stored/": "record types and versions of Kafka's stored formats",
    "broker/monitoring/http_listener.py:HttpConnection.data_received": "called by the event loop",
    "odradek/web_console/application.py:ConsoleServer.handle_exit": "called by uvicorn",
    "odradek/web_console/records/query.py:LinearEnvironment.setup_function_extensions": (
        "called by the library of JSONPath"
    ),
    "pipeline/report/progress.py:Progress.onQueryStarted": "called by Spark",
    "pipeline/report/progress.py:Progress.onQueryProgress": "called by Spark",
    "pipeline/report/progress.py:Progress.onQueryIdle": "called by Spark",
    "pipeline/report/progress.py:Progress.onQueryTerminated": "called by Spark",
    "odradek/tools/console/producer/line_reader.py:_InterruptibleFile.readinto": (
        "called by io.BufferedReader"
    ),
}
"""A folder, or `path:name` -> why no product code refers to it."""
FOUND_BY_NAME: Final = re.compile(r"test_|Test|pytest_|pytestmark$|act_")
"""What pytest collects, and what a module finds in its own `globals()`."""
CALLED_BY_NAME: Final = {
    "docs/generate/site.py:on_files": "called by mkdocs",
    "examples/pipeline/kinds/prices.py:with_tax": "named by a pipeline file",
    "examples/pipeline/kinds/prices.py:of_shop": "named by a pipeline file",
    "tests/attack/__main__.py:MODULES": "their import makes the list of attacks",
    "tests/attack/test_quick.py:MODULES": "their import makes the list of attacks",
}
WITH_NAMES_OF_THEIR_OWN: Final = ("pipeline/", "protocol/messages/", "protocol/stored/")
TEST_DOUBLES: Final = "runtime/testing/"
"""Public, but imported by tests only: its references do not count, nor must it have a user."""


def test_file_names_say_what_is_in_the_file() -> None:
    offenders = {
        file.name
        for file in everything()
        if file.name.split("/")[-1].removesuffix(".py") in SAYS_NOTHING
    }
    assert not offenders


def test_no_class_is_called_a_manager() -> None:
    offenders = [
        f"{file.name}: {node.name}"
        for file in product()
        for node in file.nodes
        if isinstance(node, ast.ClassDef) and node.name.endswith("Manager")
        if file.name not in MANAGERS
    ]
    assert not offenders


def test_class_names_are_defined_once() -> None:
    """Two classes for different things are called differently; wire structures are as in Kafka."""
    places: dict[str, list[str]] = {}
    for file in product():
        if not file.is_in(*WITH_NAMES_OF_THEIR_OWN):
            for node in file.tree.body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places.setdefault(node.name, []).append(file.name)
    assert not {name: files for name, files in places.items() if len(files) > 1}


def names_of_types(file: Source) -> Iterator[str]:
    """The public classes of a file and its aliases: `Name = Callable[...]`, `Name = A | B`."""
    for node in file.tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript | ast.BinOp):
            yield from (
                target.id
                for target in node.targets
                if isinstance(target, ast.Name) and CAMEL_CASE.fullmatch(target.id)
            )


def test_names_of_types_are_defined_once_aliases_included() -> None:
    places: dict[str, list[str]] = {}
    for file in product():
        if not file.is_in(*WITH_NAMES_OF_THEIR_OWN):
            for name in names_of_types(file):
                places.setdefault(name, []).append(file.name)
    assert not {name: files for name, files in places.items() if len(files) > 1}


def pronouns(file: Source) -> Iterator[tuple[int, str]]:
    """(line, name) of each variable, parameter, field or function that is called by a pronoun."""
    for node in file.nodes:
        match node:
            case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                pass
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                pass
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                pass
            case _:
                continue
        if name in PRONOUNS:
            yield node.lineno, name


def test_names_of_types_are_defined_once_inside_pipelines() -> None:
    """`pipeline/` stands apart: its types may have the names of those of other packages."""
    places: dict[str, list[str]] = {}
    for file in product():
        if file.is_in("pipeline/"):
            for name in names_of_types(file):
                places.setdefault(name, []).append(file.name)
    assert not {name: files for name, files in places.items() if len(files) > 1}


def test_variables_are_called_by_nouns() -> None:
    offenders = [
        f"{file.name}:{line}: {name}"
        for file in (*product(), *python(*CHECKS))
        for line, name in pronouns(file)
    ]
    assert not offenders, "\n".join(offenders)


def test_search_for_names_finds_aliases_and_pronouns() -> None:
    class Given(Source):
        text = (
            "Read = Callable[[int], int]\nLIMITS = A | B\nclass Log:\n    found: int\n"
            "def read(known): return [one.name for one in known]\n"
            "class Reader:\n    def said(self): self.wanted = 1\n"
            "match sys.argv:\n    case [*_, found]: pass\n"
        )

    assert list(names_of_types(Given("given.py"))) == ["Read", "Log", "Reader"]
    assert sorted(pronouns(Given("given.py"))) == [
        *((4, "found"), (5, "known"), (5, "one")),
        *((7, "said"), (7, "wanted"), (9, "found")),
    ]


def modules_in_lists(file: Source) -> Iterator[tuple[int, str]]:
    """(line, name) of each string of a tuple, list or set that is the name of a module of ours."""
    for node in file.nodes:
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            for element in node.elts:
                if isinstance(element, ast.Constant) and OWN_MODULE.fullmatch(str(element.value)):
                    yield element.lineno, str(element.value)


def test_modules_that_lists_name_exist() -> None:
    """A list that says what is not imported checks nothing once a module has another name."""
    files = {file.module: file for file in product()}
    existing = {name for module in files for name in prefixes(module)}

    def exists(name: str) -> bool:
        module, _, attribute = name.rpartition(".")
        return name in existing or (module in files and f" {attribute}" in files[module].text)

    offenders = [
        f"{file.name}:{line}: {name}"
        for file in everything()
        if file.name != THIS_FILE
        for line, name in modules_in_lists(file)
        if not exists(name)
    ]
    assert not offenders


def prefixes(module: str) -> list[str]:
    """The names of a module and of the packages that it is in."""
    parts = module.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


def test_files_that_lists_name_exist() -> None:
    offenders = [
        f"{file.name}:{node.lineno}: {node.value}"
        for file in python(*CHECKS)
        if file.name != THIS_FILE
        for node in file.nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if OWN_FILE.fullmatch(node.value) and not (ROOT / node.value.split(":")[0]).exists()
    ]
    assert not offenders


def test_search_for_names_in_lists_finds_modules_and_files() -> None:
    class Given(Source):
        text = 'NAMES = ("odradek.broker.gone", "odradek.", "plain")\nWORDS = {"odradek.storage"}\n'

    listed = [(1, "odradek.broker.gone"), (2, "odradek.storage")]
    assert list(modules_in_lists(Given("given.py"))) == listed
    assert OWN_FILE.fullmatch("storage/log/log.py:Log.read")
    assert OWN_FILE.fullmatch("storage/checking/")
    assert not OWN_FILE.fullmatch("storage/log/log.py and others")


def test_every_name_of_the_product_has_a_user() -> None:
    files = [file for file in product() if not file.is_in(TEST_DOUBLES)]
    offenders = [
        f"{definition.path}:{definition.line}: {definition.name}"
        for definition in dead_names(files, WITHOUT_USER)
    ]
    assert not offenders


def test_every_name_of_tests_and_benchmarks_has_a_user() -> None:
    files = python(*CHECKS)
    called = {
        f"{file.name}:{definition.name}": "found by its name or its decorator"
        for file in files
        for definition in definitions(file)
        if definition.is_registered or FOUND_BY_NAME.match(definition.name)
    }
    offenders = [
        f"{definition.path}:{definition.line}: {definition.name}"
        # Methods of a double are those of what it stands for.
        for definition in dead_names(files, called | CALLED_BY_NAME, has_methods=False)
    ]
    assert not offenders


def test_search_for_names_without_a_user_finds_what_only_such_names_use() -> None:
    class Given(Source):
        text = "def used(): ...\ndef first(): second()\ndef second(): first()\nused()\n"

    definitions_found = dead_names([Given("given.py")], {})
    assert [(definition.line, definition.name) for definition in definitions_found] == [
        (2, "first"),
        (3, "second"),
    ]


def test_search_for_names_without_a_user_finds_private_names_and_public_methods() -> None:
    class Given(Source):
        text = (
            "def _alone(): ...\nclass Used:\n    def method(self): ...\n"
            "class _Private:\n    def method_of_private(self): ...\nUsed(), _Private()\n"
        )

    definitions_found = dead_names([Given("given.py")], {})
    assert [definition.name for definition in definitions_found] == ["_alone", "Used.method"]
    assert [
        definition.name for definition in dead_names([Given("given.py")], {}, has_methods=False)
    ] == ["_alone"]
