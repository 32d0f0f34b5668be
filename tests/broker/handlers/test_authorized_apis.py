"""No API is forgotten: each names what it asks the authorizer for, and its module asks for it."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path

import pytest

from odradek.broker.handlers.shared.table import HANDLERS, Api
from odradek.broker.security.acl import permission

PUBLIC = {
    "api_versions": "before authentication, too",
    "sasl_handshake": "part of authentication",
    "sasl_authenticate": "part of authentication",
    "renew_delegation_token": "the owner of a token and its renewers may",
    "expire_delegation_token": "the owner of a token and its renewers may",
}
"""APIs that ask for nothing -> why."""
NAMES = {
    name: value
    for name, value in vars(permission).items()
    if isinstance(value, permission.Permission)
}
HANDLERS_PACKAGE = "odradek.broker.handlers."


def names_in(module: str, seen: set[str]) -> set[str]:
    """The permissions that a module and the handlers' modules that it imports refer to."""
    if module in seen:
        return set()
    seen.add(module)
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text())
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} & NAMES.keys()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(HANDLERS_PACKAGE):
            names |= names_in(node.module or "", seen)
    return names


@pytest.mark.parametrize("api", HANDLERS, ids=lambda api: api.module)
def test_api_asks_for_what_its_row_names(api: Api) -> None:
    if api.module in PUBLIC:
        assert not api.authorizes
        return
    assert api.authorizes, f"{api.module} names nothing that it asks the authorizer for"
    referred = {NAMES[name] for name in names_in(HANDLERS_PACKAGE + api.module, set())}
    missing = [asked for asked in api.authorizes if asked not in referred]
    assert not missing
