"""A handler is a plain function, or a coroutine function if it waits."""

from __future__ import annotations

import inspect
from importlib import import_module
from types import ModuleType
from typing import Final

import pytest

from odradek.broker.handlers.shared.table import HANDLERS

MAY_RETURN_COROUTINES: Final = {"fetch", "produce"}
"""Their short way creates no coroutine: it costs a measurable part of a turn."""


def module_of(name: str) -> ModuleType:
    return import_module(f"odradek.broker.handlers.{name}")


@pytest.mark.parametrize("name", [api.module for api in HANDLERS])
def test_handler_is_a_plain_function_or_an_async_one_and_says_so(name: str) -> None:
    run = module_of(name).run
    assert inspect.isfunction(run)
    assert not inspect.isgeneratorfunction(run)
    assert not inspect.isasyncgenfunction(run)
    returned = inspect.get_annotations(run)["return"]
    if inspect.iscoroutinefunction(run):
        assert "Later" not in returned, "what it returns is an outcome"
    else:
        assert ("Later" in returned) == (name in MAY_RETURN_COROUTINES)


@pytest.mark.parametrize("name", [api.module for api in HANDLERS])
def test_generator_of_a_handler_makes_items(name: str) -> None:
    """What takes long awaits `pause`."""
    module = module_of(name)
    for function in vars(module).values():
        if inspect.isgeneratorfunction(function) and function.__module__ == module.__name__:
            assert inspect.get_annotations(function)["return"].startswith("Iterator[")


def test_response_that_may_hold_slices_of_files_can_be_released() -> None:
    with_slices = {api.module for api in HANDLERS if api.has_slices}
    assert with_slices == {
        api.module for api in HANDLERS if hasattr(module_of(api.module), "release")
    }
