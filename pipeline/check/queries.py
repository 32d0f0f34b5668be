"""Checks the queries of SQL steps: views, columns and functions, and the columns of the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from sqlglot import exp

from odradek.pipeline.check.columns import UNKNOWN, Columns, Type
from odradek.pipeline.check.expressions import Checker, NotParsed, parsed, window_columns
from odradek.pipeline.check.findings import instead

HIDDEN: Final = ("_metadata",)
"""Columns of files that `*` does not contain."""


def check_query(
    text: str, views: Mapping[str, Columns], *, has_others: bool
) -> tuple[Columns, list[tuple[str, bool]]]:
    """The columns of a query's result, and mistakes; possible ones as True.

    Where a query has tables of a catalog, or syntax that the parser does not know, only what is
    certain is a mistake.

    has_others  there may be tables and functions besides the views and those of Spark
    """
    try:
        tree = parsed(text)
    except NotParsed as error:
        said = f"not understood as SQL, so it is not checked: {error}"
        is_sure = text.count("(") != text.count(")") and "'" not in text and '"' not in text
        return UNKNOWN, [(said, not is_sure)]
    if not isinstance(tree, exp.Query):
        return UNKNOWN, [("a step is a query: SELECT ...", False)]
    tables, missing = _tables(tree, views)
    has_unknown = tree.find(exp.Lateral, exp.Pivot, exp.Unnest) is not None or not tables
    checker = Checker(
        {**tables, "": UNKNOWN} if has_unknown else tables,
        has_others,
        frozenset(name.lower() for name in _added(tree)),
    )
    for name in () if has_others else missing:
        checker.wrong(f"there is no view {name!r}; {instead(name, views)}")
    for select in tree.find_all(exp.Select):
        _check_select(select, checker)
    checker.escapes(text, tree)
    # Columns of two tables with one name are not followed.
    found = [one for one in checker.said if "is a column of both sides" not in one[0]]
    return _result(tree, tables, checker), found


def _tables(tree: exp.Query, views: Mapping[str, Columns]) -> tuple[dict[str, Columns], list[str]]:
    """Alias -> the columns of each table of a query; and the tables that are not views."""
    known = {name.lower(): columns for name, columns in views.items()}
    own = {one.alias.lower() for one in tree.find_all(exp.CTE)}
    found: dict[str, Columns] = {}
    missing: list[str] = []
    for table in tree.find_all(exp.Table):
        name = table.name.lower()
        alias = table.alias_or_name.lower()
        columns = UNKNOWN
        if not isinstance(table.this, exp.Identifier) or table.args.get("db") is not None:
            pass
        elif name in known and name not in own:
            columns = known[name]
        elif name not in own:
            missing.append(table.name)
        if table.alias_column_names:
            columns = UNKNOWN
        # Two tables with one alias are in different queries.
        found[alias] = UNKNOWN if alias in found and found[alias] != columns else columns
    for one in (*tree.find_all(exp.Subquery), *tree.find_all(exp.CTE)):
        if one.alias:
            found[one.alias.lower()] = UNKNOWN
    return found, missing


def _added(tree: exp.Query) -> Iterator[str]:
    """Names besides those of tables' columns: aliases, and columns of windows."""
    yield from HIDDEN
    yield from window_columns(tree)
    for alias in tree.find_all(exp.Alias, exp.TableAlias, exp.Aliases):
        if alias.alias:
            yield alias.alias
        for one in alias.args.get("columns") or ():
            yield one.name
        if isinstance(alias, exp.Aliases):
            yield from (one.name for one in alias.args.get("expressions", ()))
    # The column of a function without an alias may be named by its text.
    yield from (one.name for one in tree.find_all(exp.Anonymous))


def _check_select(select: exp.Select, checker: Checker) -> None:
    for part in select.args.get("expressions", ()):
        checker.type_of(part)
    for key in ("where", "having"):
        clause = select.args.get(key)
        if clause is not None:
            checker.type_of(clause.this)
    for key in ("group", "order"):
        clause = select.args.get(key)
        for part in clause.expressions if clause is not None else ():
            checker.type_of(part.this if isinstance(part, exp.Ordered) else part)
    for join in select.args.get("joins") or ():
        if join.args.get("on") is not None:
            checker.type_of(join.args["on"])


def _result(tree: exp.Query, tables: Mapping[str, Columns], checker: Checker) -> Columns:
    """The columns of a query's result."""
    if not isinstance(tree, exp.Select):
        return UNKNOWN
    types: dict[str, Type] = {}
    is_open = False
    quiet = Checker(checker.scopes, True, checker.names)
    for part in tree.expressions:
        if isinstance(part, exp.Star) or part.find(exp.Star) is part.this:
            sources = list(tables.values())
            if len(sources) != 1 or part.args.get("except_") or sources[0].is_open:
                is_open = True
            else:
                types |= sources[0].types
        elif part.alias_or_name:
            types[part.alias_or_name] = quiet.type_of(part)
        else:
            is_open = True
    return Columns(types, is_open=is_open, is_of_query=True)
