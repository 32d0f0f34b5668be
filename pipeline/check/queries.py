"""Checks expressions and queries of SQL with sqlglot's qualifier, and infers their types.

A column is reported when the qualifier does not resolve it and the columns of all tables are known.
Names and arguments of functions, operands and regular expressions are left to Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import OptimizeError, SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import traverse_scope
from sqlglot.schema import MappingSchema

from odradek.pipeline.check.columns import UNKNOWN, Columns, NoSuchColumn, Type, field_of
from odradek.pipeline.check.findings import instead

RESULT: Final = "_result"
"""Column of the query that an expression becomes."""
ADDED: Final = ("_metadata", "window", "session_window")
"""Columns that Spark adds: those of files, and those of grouping by windows."""
UNNAMED: Final = "_col_"
"""Beginning of the names that sqlglot gives to columns without an alias."""

NOT_ANNOTATED: Final = (exp.ArrayPosition, exp.Interval, exp.Lateral, exp.Pivot)
"""With these in a query sqlglot infers other types than Spark."""
UNKNOWN_COLUMN: Final = re.compile(r"Unknown column: (\w+)")


class NotParsed(ValueError):
    """A text is not an expression or a query of SQL."""


@cache
def parsed(text: str) -> exp.Expr:
    """The tree of an expression or a query, which callers do not change.

    raises  NotParsed
    """
    try:
        trees = Spark().parser().parse(_tokens(text), text)
    except SqlglotError as error:
        raise NotParsed(_reason(error)) from error
    except RecursionError as error:
        raise NotParsed("nested too deep") from error
    if len(trees) != 1 or trees[0] is None:
        raise NotParsed("one expression is expected")
    return trees[0]


def _tokens(text: str) -> list[Token]:
    """The tokens of a text, with `window` as a name except in the clause `WINDOW name AS (...)`.

    The parser takes the function after GROUP BY, and the column, for that clause.
    raises  SqlglotError
    """
    tokens: list[Token] = Spark().tokenize(text)
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
    reason = str(first["description"]).replace("<class 'sqlglot.expressions.", "<")
    reason = re.sub(r"<(?:\w+\.)*(\w+)'>", r"\1", reason).rstrip(".")
    place = str(first.get("highlight") or "").strip()
    return f"{reason} at {place!r}" if place else reason


def check_expression(text: str, tables: Mapping[str, Columns]) -> tuple[Type, list[str]]:
    """The type of an expression over the rows of tables, and mistakes.

    tables  alias -> columns: `l` and `r` of a join
    """
    try:
        tree = parsed(text)
    except NotParsed as error:
        return None, [f"not understood as SQL: {error}"]
    if isinstance(tree, exp.Query | exp.Command):
        return None, []
    first, *others = tables
    query = exp.select(exp.alias_(tree.copy(), RESULT)).from_(first)
    for alias in others:
        query = query.join(alias, join_type="cross")
    columns, mistakes = _checked(query, tables)
    return columns.types.get(RESULT), mistakes


def check_query(
    text: str, views: Mapping[str, Columns], *, has_others: bool
) -> tuple[Columns, list[tuple[str, bool]]]:
    """The columns of a query's result, and mistakes; a possible mistake has True.

    has_others  there may be tables besides the views
    """
    try:
        tree = parsed(text)
    except NotParsed as error:
        # Spark's syntax has parts that the parser does not know.
        return UNKNOWN, [(f"not understood as SQL, so it is not checked: {error}", True)]
    if not isinstance(tree, exp.Query):
        return UNKNOWN, [("a step is a query: SELECT ...", False)]
    own = {table.alias.lower() for table in tree.find_all(exp.CTE)}
    tables: dict[str, Columns] = {}
    for table in tree.find_all(exp.Table):
        name = table.name.lower()
        if not isinstance(table.this, exp.Identifier) or table.db:
            return UNKNOWN, []
        if name in own:
            continue
        if name not in views:
            mistake = f"there is no view {table.name!r}; {instead(table.name, views)}"
            return UNKNOWN, [] if has_others else [(mistake, False)]
        tables[name] = views[name]
    columns, mistakes = _checked(tree.copy(), tables)
    return columns, [(mistake, False) for mistake in mistakes]


def _checked(tree: exp.Query, tables: Mapping[str, Columns]) -> tuple[Columns, list[str]]:
    """The columns of a query's result, and mistakes; changes `tree`."""
    is_open = any(columns.is_open for columns in tables.values())
    if is_open and (len(tables) > 1 or tree.is_star):
        return _result(tree, has_types=False), []
    schema = MappingSchema(
        {
            table: {
                name.lower(): kind or exp.DataType.build("unknown")
                for name, kind in columns.types.items()
            }
            for table, columns in tables.items()
        },
        dialect="spark",
        normalize=False,
    )
    try:
        tree = qualify(
            tree,
            dialect="spark",
            schema=schema,
            quote_identifiers=False,
            identify=False,
            validate_qualify_columns=False,
        )
        tree = annotate_types(tree, schema=schema, dialect="spark")
    except OptimizeError as error:
        return UNKNOWN, [] if is_open else [_unknown_column(error, tables)]
    mistakes = dict.fromkeys(_missing_fields(tree))
    if not is_open:
        mistakes = {**dict.fromkeys(_unresolved(tree, tables)), **mistakes}
    # Types of a union are common to its parts.
    is_sure = isinstance(tree, exp.Select) and tree.find(*NOT_ANNOTATED) is None
    return _result(tree, has_types=is_sure), list(mistakes)


def _unknown_column(error: OptimizeError, tables: Mapping[str, Columns]) -> str:
    """The error of a column that its table does not have, or of another kind."""
    column = UNKNOWN_COLUMN.match(str(error))
    return _reason(error) if column is None else _no_column(column[1], tables)


def _no_column(name: str, tables: Mapping[str, Columns]) -> str:
    columns = [column for table in tables.values() for column in table.types]
    return f"there is no column {name!r}; {instead(name, columns)}"


def _unresolved(tree: exp.Query, tables: Mapping[str, Columns]) -> Iterable[str]:
    for scope in traverse_scope(tree):
        if not isinstance(scope.expression, exp.Select) or scope.pivots:
            continue
        outer = () if scope.is_correlated_subquery else scope.external_columns
        for column in (*scope.unqualified_columns, *outer):
            name = column.parts[0].name
            having = [alias for alias, table in tables.items() if table.own(name) is not None]
            is_alias = name in scope.expression.named_selects
            if name in ADDED or (is_alias and column.find_ancestor(exp.Order, exp.Having)):
                continue
            if len(having) > 1:
                meant = " or ".join(f"{alias}.{name}" for alias in having)
                yield f"{name!r} is a column of several tables; write {meant}"
            else:
                yield _no_column(name, tables)


def _missing_fields(tree: exp.Query) -> Iterable[str]:
    for dot in tree.find_all(exp.Dot):
        if isinstance(dot.expression, exp.Identifier):
            above = dot.this.name if isinstance(dot.this, exp.Column) else dot.this.sql("spark")
            try:
                field_of(dot.this.type, [dot.expression.name], above)
            except NoSuchColumn as error:
                yield str(error)


def _result(tree: exp.Query, *, has_types: bool) -> Columns:
    """The columns of a query; more than these if a column is a star or has no name."""
    types: dict[str, Type] = {}
    is_open = False
    for column in tree.selects:
        name = column.alias or (column.name if isinstance(column, exp.Column) else "")
        if not name or name.startswith(UNNAMED) or column.is_star:
            is_open = True
        else:
            is_known = has_types and column.type is not None and not column.is_type("unknown")
            types[name] = column.type if is_known else None
    return Columns(types, is_open=is_open)
