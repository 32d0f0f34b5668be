"""What a decoded request still reads from its frame: the records of those that stage them.

A request that waits gives its frame back once it is decoded (`Outcomes.begin`), unless its API
stages records.  So whatever overwrites the frame may change records, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from odradek.broker.handlers.shared.table import HANDLERS, Api
from odradek.protocol.api_keys import messages_of
from odradek.protocol.compiler import decoder, encoder, step_decoder
from odradek.protocol.disposal import array_names
from odradek.protocol.schema import schema_of
from tests.support.declarations import ValueMaker, versions_of

ENOUGH: Final = 1_000_000
OVERWRITTEN: Final = 0xEE


def decoded_at_once(cls: type, version: int, frame: memoryview) -> Any:
    return decoder(cls, version)(frame, 0)[0]


def decoded_in_steps(cls: type, version: int, frame: memoryview) -> Any:
    steps: Any = step_decoder(cls, version)(frame, 0, ENOUGH)
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return stop.value[0]


def views_in(message: Any) -> list[str]:
    """The fields that are views into the frame, at any depth."""
    schema = schema_of(type(message))
    views: list[str] = []
    for field in schema.fields:
        value = getattr(message, field.name)
        elements = value if field.name in array_names(schema) and value else [value]
        for element in elements:
            if isinstance(element, memoryview):
                views.append(field.name)
            elif hasattr(element, "__schema__"):
                views += views_in(element)
    return views


@pytest.mark.parametrize("decode", [decoded_at_once, decoded_in_steps])
@pytest.mark.parametrize("api", HANDLERS, ids=[api.module for api in HANDLERS])
def test_frame_that_is_overwritten_changes_no_decoded_request_but_staged_records(
    api: Api, decode: Callable[[type, int, memoryview], Any]
) -> None:
    cls, _ = messages_of(api.key)
    views: set[str] = set()
    for version in versions_of(cls):
        for number in range(3):
            made = ValueMaker(f"{api.module} {version} {number}").message(cls, version)
            frame = bytearray(encoder(cls, version)(made))
            request = decode(cls, version, memoryview(frame))
            views.update(views_in(request))
            if not api.is_staged:
                frame[:] = bytes([OVERWRITTEN]) * len(frame)
            assert request == made, version
    assert views <= ({"records"} if api.is_staged else set())
