"""Frees large messages in steps: 200,000 elements that are freed at once take 25 ms."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from odradek.protocol.schema import ArrayOf, Schema, schema_of

LARGE: Final = 1_024
"""Elements of an array that are worth a step of their own."""
STEP_ELEMENTS: Final = 256
"""Elements that are freed in a step."""
STEP_SLICES: Final = 64
"""Slices that are made in a step."""


@cache
def array_names(schema: Schema) -> tuple[str, ...]:
    """The fields that are arrays."""
    return tuple(each.name for each in schema.fields if isinstance(each.type, ArrayOf))


def dispose_in_steps(messages: list[Any]) -> Iterator[None]:
    """Empty the list, and free its messages in steps; yields between steps.

    Neither the messages nor their arrays are changed: slices of the arrays are kept, the message is
    dropped, and then the slices one after the other.  So what anything else refers to stays whole,
    and the number of steps depends on the lengths of the arrays alone.  The step in which a message
    is dropped takes some 1 ms for 200,000 elements.
    """
    while messages:
        slices: list[list[Any]] = []
        yield from _slice_in_steps(messages.pop(), slices)
        while slices:
            messages += [element for element in slices.pop() if _is_large(element)]
            if slices:
                yield None


def _slice_in_steps(message: Any, slices: list[list[Any]]) -> Iterator[None]:
    """Append slices of the arrays of a message; it is not referred to when this has ended."""
    if not hasattr(message, "__schema__"):
        return
    for name in array_names(schema_of(type(message))):
        elements: list[Any] = getattr(message, name) or []
        for start in range(0, len(elements), STEP_ELEMENTS):
            slices.append(elements[start : start + STEP_ELEMENTS])
            if len(slices) % STEP_SLICES == 0:
                yield None


def _is_large(element: Any) -> bool:
    if not hasattr(element, "__schema__"):
        return False
    return any(
        len(getattr(element, name) or ()) > LARGE for name in array_names(schema_of(type(element)))
    )
