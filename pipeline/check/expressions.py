"""Checks SQL expressions against the columns that they may use, and infers their types."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError

from odradek.pipeline.check.columns import (
    Columns,
    NoSuchColumn,
    Type,
    field_of,
    kind_of,
    shown,
    type_named,
)
from odradek.pipeline.check.facts import COMMON, UNKNOWN, Function, functions
from odradek.pipeline.check.findings import instead
from odradek.pipeline.check.java_patterns import pattern_fault

PATTERN_FUNCTIONS: Final = {
    "regexp": 1,
    "regexp_count": 1,
    "regexp_extract": 1,
    "regexp_extract_all": 1,
    "regexp_instr": 1,
    "regexp_like": 1,
    "regexp_replace": 1,
    "regexp_substr": 1,
    "rlike": 1,
    "split": 1,
}
"""Function -> number of the argument that is a regular expression."""
OF_WINDOWS: Final = ("window", "session_window")
"""Columns that grouping by the functions of these names adds."""
NAMES_OF_SQL: Final = ("cast", "try_cast", "extract", "exists", "if", "struct", "array", "map")
"""Functions that are syntax, too, and so not all of them are in the list of Spark."""
COMPLEX: Final = ("array", "map", "struct")
NO_TRUTH: Final = ("int", "double", "decimal", "date", "timestamp", "binary", *COMPLEX)
NO_NUMBER: Final = ("boolean", *COMPLEX)
LITERAL: Final = re.compile(r"(?<![rR\w])'((?:[^'\\]|\\.)*)'|(?<![rR\w])\"((?:[^\"\\]|\\.)*)\"")
LOST: Final = re.compile(r"(?<!\\)(?:\\\\)*\\([dDwWsSbBhvRQEpP.+*?(){}\[\]|$^])")
"""An escape of a regular expression whose backslash SQL removes."""
INT_MAX: Final = (1 << 31) - 1


class PlainSpark(Spark):
    """Spark's SQL with every function as it is written, with its own name and arguments."""

    class Parser(Spark.Parser):  # type: ignore[misc, valid-type]
        """A parser that knows no function but those with a syntax of their own."""

        FUNCTIONS: Mapping[str, Callable[..., exp.Expr]] = {}


class NotParsed(ValueError):
    """A text is not an expression of SQL."""


@cache
def parsed(text: str) -> exp.Expr:
    """The tree of an expression or a query.

    raises  NotParsed
    """
    try:
        found = PlainSpark().parser().parse(_tokens(text), text)
    except SqlglotError as error:
        raise NotParsed(_reason(error)) from error
    except RecursionError as error:
        raise NotParsed("nested too deep") from error
    if len(found) != 1 or found[0] is None:
        raise NotParsed("one expression is expected")
    return found[0]


def _tokens(text: str) -> list[Token]:
    """The tokens of a text, with `window` as a name except in the clause `WINDOW name AS (...)`.

    The parser takes the function after GROUP BY, and the column, for that clause.
    raises  SqlglotError
    """
    tokens: list[Token] = PlainSpark().tokenize(text)
    return [
        Token(
            TokenType.VAR, token.text, token.line, token.col, token.start, token.end, token.comments
        )
        if token.token_type is TokenType.WINDOW
        and TokenType.ALIAS not in [after.token_type for after in tokens[number + 2 : number + 3]]
        else token
        for number, token in enumerate(tokens)
    ]


def _reason(error: SqlglotError) -> str:
    """One line of an error of the parser: what is wrong, and before what."""
    details = getattr(error, "errors", None)
    if not details:
        return re.sub(r"\s+", " ", str(error)).strip()
    first = details[0]
    said = str(first["description"]).replace("<class 'sqlglot.expressions.", "<")
    said = re.sub(r"<(?:\w+\.)*(\w+)'>", r"\1", said).rstrip(".")
    at = str(first.get("highlight") or "").strip()
    return f"{said} at {at!r}" if at else said


@dataclass(slots=True)
class Checker:
    """Checks expressions over some columns.

    scopes      alias -> its columns; `l` and `r` of a join; the alias is empty for plain columns
    has_others  there may be functions that are not Spark's own
    names       that are columns besides, such as aliases of a query
    said        mistakes, and possible ones as True
    """

    scopes: Mapping[str, Columns]
    has_others: bool = False
    names: frozenset[str] = frozenset()
    said: list[tuple[str, bool]] = field(default_factory=list)

    def expression(self, text: str) -> Type:
        """Check an expression; returns its type."""
        try:
            tree = parsed(text)
        except NotParsed as error:
            self.wrong(f"not understood as SQL: {error}")
            return None
        if isinstance(tree, exp.Query) or not isinstance(tree, exp.Expr):
            return None
        kind = self.type_of(tree)
        self.escapes(text, tree)
        return kind

    def condition(self, text: str) -> None:
        """Check an expression that must be a truth value."""
        kind = self.expression(text)
        if kind_of(kind) not in (None, "boolean"):
            self.wrong(f"is {shown(kind)}, and a condition is BOOLEAN")

    def wrong(self, said: str, *, is_warning: bool = False) -> None:
        """Note a mistake once."""
        if (said, is_warning) not in self.said:
            self.said.append((said, is_warning))

    def escapes(self, text: str, tree: exp.Expr) -> None:
        """Warn of backslashes of regular expressions that SQL removes from its literals."""
        calls = [
            one for one in tree.find_all(exp.Anonymous) if one.name.lower() in PATTERN_FUNCTIONS
        ]
        if not calls and tree.find(exp.RegexpLike) is None:
            return
        for literal in LITERAL.findall(text):
            lost = LOST.search(literal[0] or literal[1])
            if lost is not None:
                said = f"SQL reads '\\{lost[1]}' as '{lost[1]}'; write r'...' or '\\\\{lost[1]}'"
                self.wrong(said, is_warning=True)

    def type_of(self, node: exp.Expr | None) -> Type:
        """Check a tree; returns its type."""
        match node:
            case None:
                return None
            case exp.Query() | exp.Table() | exp.DataType():
                return None
            case exp.Column():
                return self.column(node)
            case exp.Dot():
                return self.dot(node)
            case exp.Anonymous():
                return self.call(node)
            case exp.Lambda():
                self.below(node)
                return None
        below = self.below(node)
        return self.of_operator(node, below)

    def below(self, node: exp.Expr) -> dict[str, list[Type]]:
        """Check the parts of a tree; argument -> types."""
        found: dict[str, list[Type]] = {}
        for name, value in node.args.items():
            parts = value if isinstance(value, list) else [value]
            found[name] = [self.type_of(one) for one in parts if isinstance(one, exp.Expr)]
        return found

    def column(self, node: exp.Column) -> Type:
        """Look a column up."""
        names = [part.name for part in node.parts]
        if isinstance(node.this, exp.Star) or names[0].lower() in self.names:
            return None
        scopes = {alias.lower(): columns for alias, columns in self.scopes.items()}
        of_alias = scopes.get(names[0].lower()) if len(names) > 1 else None
        try:
            if of_alias is not None:
                return of_alias.path(names[1:])
            having = [alias for alias, one in scopes.items() if one.own(names[0]) is not None]
            if len(having) == 1 or (having and len(scopes) == 1):
                return scopes[having[0]].path(names)
            if having:
                if not any(one.is_open for one in scopes.values()):
                    wanted = " or ".join(f"{alias}.{names[0]}" for alias in having)
                    self.wrong(f"{names[0]!r} is a column of both sides; write {wanted}")
                return None
            return self.of_none(names)
        except NoSuchColumn as error:
            self.wrong(str(error))
            return None

    def of_none(self, names: Sequence[str]) -> Type:
        """Look up what is no column of any scope.

        raises  NoSuchColumn
        """
        if len(self.scopes) == 1:
            return next(iter(self.scopes.values())).path(names)
        if any(one.is_open or one.is_of_query for one in self.scopes.values()):
            return None
        known = [f"{alias}.{one}" for alias, of in self.scopes.items() for one in of.types]
        raise NoSuchColumn(f"there is no column {'.'.join(names)!r}; {instead(names[-1], known)}")

    def dot(self, node: exp.Dot) -> Type:
        """Look up a field of the value of an expression."""
        kind = self.type_of(node.this)
        if not isinstance(node.expression, exp.Identifier):
            return None
        try:
            return field_of(kind, [node.expression.name], node.this.sql(dialect="spark"))
        except NoSuchColumn as error:
            self.wrong(str(error))
            return None

    def call(self, node: exp.Anonymous) -> Type:
        """Check a call: the function's name, the number and the types of its arguments."""
        name = node.name.lower()
        given = node.expressions
        types = [self.type_of(one) for one in given]
        known = functions().get(name)
        if known is None:
            if not (self.has_others or name in NAMES_OF_SQL or node.args.get("this") is None):
                self.wrong(f"there is no function {node.name!r}; {_functions(name)}")
            return None
        if any(isinstance(one, exp.Star | exp.Distinct | exp.Kwarg | exp.Order) for one in given):
            return _result(known, types)
        if len(given) < known.least or (known.most is not None and len(given) > known.most):
            self.wrong(f"{name} takes {_counts(known)}, and {len(given)} are given")
            return _result(known, types)
        for number, (kind, accepted) in enumerate(zip(types, known.accepts, strict=False), 1):
            of = kind_of(kind)
            if of is not None and of not in accepted:
                said = f"{name}: argument {number} is {shown(kind)}; allowed: "
                self.wrong(said + ", ".join(sorted(one.upper() for one in accepted)))
        place = PATTERN_FUNCTIONS.get(name)
        if place is not None and len(given) > place:
            self.pattern(given[place])
        return _result(known, types)

    def pattern(self, node: exp.Expr) -> None:
        """Check a regular expression that is a literal."""
        if isinstance(node, exp.RawString) or (isinstance(node, exp.Literal) and node.is_string):
            fault = None if self.has_others else pattern_fault(str(node.this))
            if fault is not None:
                self.wrong(f"the regular expression {str(node.this)!r}: {fault}")

    def of_operator(self, node: exp.Expr, below: Mapping[str, list[Type]]) -> Type:
        """The type of an operator or literal whose parts are checked."""
        left = next(iter(below.get("this", ())), None)
        right = next(iter(below.get("expression", ())), None)
        match node:
            case exp.Cast():
                return node.to
            case exp.Paren() | exp.Alias() | exp.Filter() | exp.Window() | exp.Neg():
                return left
            case exp.And() | exp.Or() | exp.Not():
                self.truth(left, node)
                self.truth(right, node)
            case exp.If():
                self.truth(left, node.this)
                return None
            case exp.RegexpLike():
                self.pattern(node.expression)
            case exp.EQ() | exp.NEQ() | exp.GT() | exp.GTE() | exp.LT() | exp.LTE():
                of = (kind_of(left), kind_of(right))
                if None not in of and of[0] != of[1] and set(of) & set(COMPLEX):
                    self.wrong(f"{shown(left)} is never {shown(right)}: {_text(node)}")
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod():
                for kind in (left, right):
                    if kind_of(kind) in NO_NUMBER:
                        self.wrong(f"{shown(kind)} is no number: {_text(node)}")
                return _arithmetic(node, left, right)
            case exp.Case():
                branches = [one.args.get("true") for one in node.args.get("ifs", ())]
                branches.append(node.args.get("default"))
                return _common([self.type_of(one) for one in branches if one is not None])
        return _of_value(node)

    def truth(self, kind: Type, node: exp.Expr) -> None:
        """Check that the type of an operand is that of a truth value."""
        if kind_of(kind) in NO_TRUTH:
            self.wrong(f"{shown(kind)} is no truth value: {_text(node)}")


def _of_value(node: exp.Expr) -> Type:
    """The type of a literal, a comparison, or the time now."""
    match node:
        case exp.Literal():
            return _literal(node)
        case exp.RawString():
            return type_named("STRING")
        case exp.Boolean() | exp.Predicate() | exp.And() | exp.Or() | exp.Not():
            return type_named("BOOLEAN")
        case exp.CurrentTimestamp():
            return type_named("TIMESTAMP")
        case exp.CurrentDate():
            return type_named("DATE")
    return None


def _text(node: exp.Expr) -> str:
    return node.sql(dialect="spark")


def _functions(name: str) -> str:
    known = functions()
    said = instead(name, known)
    meant, mark, _ = said.partition("?")
    return meant + mark if mark else "Spark's are in its SQL reference"


def _counts(known: Function) -> str:
    if known.most is None:
        return f"{known.least} arguments or more"
    if known.most == known.least:
        return f"{known.least} argument" if known.least == 1 else f"{known.least} arguments"
    return f"{known.least} to {known.most} arguments"


def _result(known: Function, types: Sequence[Type]) -> Type:
    if known.result == COMMON:
        return _common(types)
    return None if known.result == UNKNOWN else type_named(known.result)


def _common(types: Sequence[Type]) -> Type:
    """The type of all; unknown when they differ."""
    return types[0] if types and all(one == types[0] for one in types) else None


def _literal(node: exp.Literal) -> Type:
    if node.is_string:
        return type_named("STRING")
    text = str(node.this)
    if not text.isdecimal():
        return None
    return type_named("INT" if int(text) <= INT_MAX else "BIGINT")


ORDER: Final = ("TINYINT", "SMALLINT", "INT", "BIGINT")


def _arithmetic(node: exp.Expr, left: Type, right: Type) -> Type:
    kinds = (kind_of(left), kind_of(right))
    if set(kinds) <= {"int", "double"} and left is not None and right is not None:
        if "double" in kinds or isinstance(node, exp.Div):
            return type_named("DOUBLE")
        names = [one.this.value for one in (left, right)]
        return type_named(max(names, key=ORDER.index))
    return None


def window_columns(tree: exp.Expr) -> Iterator[str]:
    """The columns that the functions of windows in a query add."""
    for call in tree.find_all(exp.Anonymous):
        if call.name.lower() in OF_WINDOWS:
            yield call.name.lower()
