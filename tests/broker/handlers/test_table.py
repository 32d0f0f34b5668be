"""The table of APIs against the modules and declarations that it names."""

from __future__ import annotations

import inspect
import re
from importlib import import_module

import pytest

from odradek.broker.handlers.shared.table import HANDLERS, Api
from odradek.broker.services import HandlerParts, Services
from odradek.protocol.api_keys import ApiKey, messages_of
from odradek.protocol.schema import schema_of


def name(api: Api) -> str:
    return ApiKey(api.key).name


@pytest.mark.parametrize("api", HANDLERS, ids=name)
def test_each_row_names_a_module_with_a_handler(api: Api) -> None:
    assert api.module == ApiKey(api.key).name.lower()
    module = import_module(f"odradek.broker.handlers.{api.module}")
    first, second, *taken = inspect.signature(module.run).parameters.values()
    assert (first.name, second.name) == ("context", "request")
    declared = inspect.get_annotations(HandlerParts)
    assert [parameter.name for parameter in taken] == list(api.takes)
    for parameter in taken:
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        assert parameter.annotation == declared[parameter.name].__forward_arg__
    assert list(inspect.signature(module.failed).parameters) == ["request", "code", "message"]


@pytest.mark.parametrize("api", HANDLERS, ids=name)
def test_each_served_version_is_declared(api: Api) -> None:
    for message in messages_of(api.key):
        versions = schema_of(message).versions
        assert versions.first <= api.min_version <= api.max_version <= versions.last
        if api.advertised_min_version is not None:
            assert versions.first <= api.advertised_min_version < api.min_version


@pytest.mark.parametrize("api", HANDLERS, ids=name)
def test_docstring_names_the_served_versions(api: Api) -> None:
    text = import_module(f"odradek.broker.handlers.{api.module}").__doc__ or ""
    assert f"(key {api.key})" in text
    low, high = api.min_version, api.max_version
    assert f"Served: {low}-{high}" in text or (low == high and f"Served: {low}" in text)


@pytest.mark.parametrize("api", HANDLERS, ids=name)
def test_docstring_says_what_each_version_brought(api: Api) -> None:
    text = import_module(f"odradek.broker.handlers.{api.module}").__doc__ or ""
    named = {int(version) for version in re.findall(r"^    (\d+) {2,3}\S", text, re.M)}
    assert set(range(api.min_version + 1, api.max_version + 1)) - named == set()


def test_parts_of_single_handlers_are_not_among_the_services() -> None:
    taken = {name for api in HANDLERS for name in api.takes}
    assert taken == set(HandlerParts._fields), "each has a handler that takes it"
    assert not taken & set(Services._fields)


def test_keys_ascend_and_appear_once() -> None:
    keys = [api.key for api in HANDLERS]
    assert keys == sorted(set(keys))
