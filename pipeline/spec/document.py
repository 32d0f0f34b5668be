"""The text of a pipeline file as one document: its includes, what the command line sets, variables.

    include = ["shared.toml"]               tables of other files; the keys of this file come first
    topic = "${STAGE:-test}-orders"         variables of the environment; `$${` is the text `${`
    "sasl.password" = { secret_file = "p" } the text of a file, without its last line end

Values that come from the environment or a secret file, and those of options with names like
`password` and `secret.key`, are never printed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, Final, NamedTuple

from odradek.bounded_parsing import UnreadableText, parse_toml
from odradek.pipeline.spec.bounded_files import read_bytes, read_text
from odradek.pipeline.spec.hiding import Hidden
from odradek.pipeline.spec.key_lines import Path, lines_of
from odradek.pipeline.spec.problems import Line, Problem, SpecError, placed
from odradek.pipeline.spec.written_float import WrittenFloat

INCLUDE: Final = "include"
SECRET_FILE: Final = "secret_file"
COMMAND_LINE: Final = "--set"
SECRET_BYTES_MAX: Final = 64 * 1024
OPTION_TABLES: Final = ("options", "spark", "spark_options", "headers")
_SECRET_NAME: Final = re.compile(
    r"secret|passw|user[._-]info|passphrase|credential|jaas|authorization|(^|[._-])(api|sas|auth)?[._-]?token$"
    r"|(access|account|api|private|shared|encryption)[._-]?key",
    re.IGNORECASE,
)
"""Names of options whose values are not printed."""
_IN_ADDRESS: Final = re.compile(r"[?&;]([^=&;]*passw[^=&;]*|token|secret)=([^&;]+)", re.IGNORECASE)
_VARIABLE: Final = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")
_NAMED: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)


class Outside(NamedTuple):
    """What a file may take from outside.

    settings  `KEY=VALUE` of the command line, later ones over earlier ones
    """

    environment: Mapping[str, str] = {}
    settings: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """The tables of a file and of those that it includes.

    lines    where each key is written
    others   place -> the value of another type that the same text may mean: 20 for "${ROWS}"
    hidden   what is not printed
    """

    table: dict[str, Any]
    lines: dict[Path, Line]
    others: dict[Path, object] = field(default_factory=dict)
    hidden: Hidden = field(default_factory=Hidden)

    def replace(self, where: Path) -> bool:
        """Take the value of another type at a place; returns whether there was one."""
        if where not in self.others:
            return False
        _set(self.table, where, self.others.pop(where))
        return True


def text_of(path: FilePath) -> str:
    """The text of a file.

    raises  SpecError when it is not UTF-8; OSError
    """
    try:
        return read_text(path)
    except UnicodeDecodeError as error:
        raise SpecError([Problem(str(path), 1, "", f"not UTF-8: {error}")]) from error


def read_document(text: str, path: FilePath, outside: Outside) -> Document:
    """The document of the text of the file `path`.

    raises  SpecError; OSError when an included file cannot be read
    """
    table, lines = _with_includes(text, path)
    document = Document(table, lines)
    problems: list[Problem] = []
    for setting in outside.settings:
        try:
            _apply(setting, document)
        except ValueError as error:
            problems.append(Problem(COMMAND_LINE, 0, "", str(error)))
    for where, value in list(_values(table, ())):
        try:
            _substitute(where, value, document, path.parent, outside.environment)
        except ValueError as error:
            problems.append(placed(where, str(error), lines))
    if problems:
        raise SpecError(problems)
    for where, name, secret in list(_secrets_of(table)):
        document.hidden.add_secret(where, secret, f"({name})")
    return document


def _secrets_of(place: object, where: Path = ()) -> Iterator[tuple[Path, str, str]]:
    """Yield place, name and value of each secret among options, headers and in addresses."""
    if isinstance(place, list):
        for number, value in enumerate(place):
            yield from _secrets_of(value, (*where, number))
    if not isinstance(place, dict):
        return
    is_named = any(name in OPTION_TABLES for name in where)
    for key, value in place.items():
        if isinstance(value, dict | list):
            yield from _secrets_of(value, (*where, key))
        elif is_named and _SECRET_NAME.search(key) and not isinstance(value, bool):
            yield (*where, key), key, str(value)
        elif isinstance(value, str) and (is_named or key == "url"):
            for name, secret in _IN_ADDRESS.findall(value):
                yield (*where, key), name, secret


def written_lines(path: FilePath) -> dict[Path, Line]:
    """Where each key of a file and of those that it includes is written.

    raises  SpecError; OSError
    """
    return _with_includes(text_of(path), path)[1]


def _parsed(text: str, path: FilePath) -> tuple[dict[str, Any], dict[Path, Line]]:
    try:
        table = parse_toml(text, float_type=WrittenFloat)
        lines = lines_of(text)
    except UnreadableText as error:
        raise SpecError([Problem(str(path), 1, "", f"not TOML: {error}")]) from error
    return table, {key: Line(str(path), number) for key, number in lines.items()}


def _with_includes(text: str, path: FilePath) -> tuple[dict[str, Any], dict[Path, Line]]:
    own, own_lines = _parsed(text, path)
    names = own.pop(INCLUDE, [])
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        problem = 'must be an array of file names: include = ["shared.toml"]'
        raise SpecError([placed((INCLUDE,), problem, own_lines)])
    table: dict[str, Any] = {}
    lines: dict[Path, Line] = {}
    for number, name in enumerate(names):
        file = path.parent / name
        try:
            included, included_lines = _parsed(text_of(file), file)
        except OSError as error:
            problem = f"{name}: {error.strerror}"
            raise SpecError([placed((INCLUDE, number), problem, own_lines)]) from error
        if INCLUDE in included:
            problem = "an included file cannot include others"
            raise SpecError([placed((INCLUDE,), problem, included_lines)])
        del included_lines[()]
        _merge(table, included)
        lines |= included_lines
    _merge(table, own)
    return table, lines | own_lines


def _merge(table: dict[str, Any], above: dict[str, Any]) -> None:
    """Add the keys of another table, which replace equal ones; tables in both are merged."""
    for key, value in above.items():
        ours = table.get(key)
        if isinstance(ours, dict) and isinstance(value, dict):
            _merge(ours, value)
        else:
            table[key] = value


def _apply(setting: str, document: Document) -> None:
    """Set a value of the command line.

    raises  ValueError
    """
    key, equals, text = setting.partition("=")
    try:
        parsed = parse_toml(f"{key.strip()} = 0")
    except UnreadableText:
        parsed = {}
    if not equals or not parsed:
        raise ValueError(f"{setting!r} is not KEY=VALUE, such as sinks.out.topic=orders")
    where: tuple[str, ...] = ()
    place: Any = parsed
    while isinstance(place, dict):
        name = next(iter(place))
        where, place = (*where, name), place[name]
    value: object = text
    try:
        in_toml = parse_toml(f"value = {text}")["value"]
    except UnreadableText:
        in_toml = text
    if isinstance(in_toml, str | int | float | list | dict):
        value = in_toml
    _set(document.table, where, value)
    for length in range(1, len(where) + 1):
        document.lines.setdefault(where[:length], Line(COMMAND_LINE, 0))
    document.lines[where] = Line(COMMAND_LINE, 0)
    if not isinstance(value, str):
        document.others[where] = text


def _set(table: dict[str, Any], where: Path, value: object) -> None:
    """Set a value; tables on the way to it are made.

    raises  ValueError when there is a value on the way
    """
    place: Any = table
    for number, name in enumerate(where[:-1]):
        place = place.setdefault(name, {}) if isinstance(place, dict) else place[name]
        if not isinstance(place, dict | list):
            parent = ".".join(map(str, where[: number + 1]))
            raise ValueError(f"{'.'.join(map(str, where))}: {parent} is a value, not a table")
    place[where[-1]] = value


def _values(place: object, where: Path) -> Iterator[tuple[Path, object]]:
    """Each text, and each table that stands for a secret file."""
    if isinstance(place, dict):
        if set(place) == {SECRET_FILE}:
            yield where, place
            return
        for key, value in place.items():
            yield from _values(value, (*where, key))
    elif isinstance(place, list):
        for number, value in enumerate(place):
            yield from _values(value, (*where, number))
    elif isinstance(place, str):
        yield where, place


def _substitute(
    where: Path, value: object, document: Document, folder: FilePath, environment: Mapping[str, str]
) -> None:
    """raises  ValueError"""
    hide: Callable[[str, str], None] = document.hidden.add
    if isinstance(value, dict):
        name = value[SECRET_FILE]
        if not isinstance(name, str):
            raise ValueError(f"{SECRET_FILE} must be the name of a file")
        secret = _secret(folder / _expanded(name, environment, hide))
        hide(secret, f"({SECRET_FILE} {name})")
        _set(document.table, where, secret)
        document.hidden.add_at(where, secret, f"({SECRET_FILE} {name})")
        return
    assert isinstance(value, str), "texts and tables are looked for"
    text = _expanded(value, environment, hide)
    if text == value:
        return
    _set(document.table, where, text)
    whole = _VARIABLE.fullmatch(value)
    if whole is None or whole[1] is not None:
        document.hidden.add_at(where, text, value)
    if whole is not None and whole[1] is not None:
        scalar = _scalar(text)
        if scalar is not None:
            document.others[where] = scalar


def _expanded(text: str, environment: Mapping[str, str], hide: Callable[[str, str], None]) -> str:
    """The text with the values of its variables.

    hide    called with each value of the environment and what is printed instead
    raises  ValueError
    """

    def value(match: re.Match[str]) -> str:
        if match[1] is None:
            return "${"
        named = _NAMED.fullmatch(match[1])
        if named is None or not match[2]:
            raise ValueError(
                f"{match[0]!r} is not a variable: write ${{NAME}} or ${{NAME:-default}}, $${{ for"
                " the text ${"
            )
        name, default = named[1], named[2]
        given = environment.get(name, "") if default is not None else environment.get(name)
        if given is None:
            raise ValueError(
                f"the environment has no variable {name}; ${{{name}:-default}} has a default"
            )
        if not given:
            return default or ""
        hide(given, f"${{{name}}}")
        return given

    return _VARIABLE.sub(value, text)


def _secret(path: FilePath) -> str:
    """raises  ValueError"""
    try:
        data = read_bytes(path, SECRET_BYTES_MAX)
    except OSError as error:
        raise ValueError(f"{SECRET_FILE} {path}: {error.strerror}") from error
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{SECRET_FILE} {path}: not UTF-8") from error
    return text.removesuffix("\n").removesuffix("\r")


def _scalar(text: str) -> object:
    """The number or truth value that a text is in TOML; None for other texts."""
    try:
        value = parse_toml(f"value = {text}")["value"]
    except UnreadableText:
        return None
    return value if isinstance(value, int | float) else None
