"""Floating-point numbers of TOML and JSON that keep their digits."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

MARK: Final = "\ufdd0"
MARKED: Final = re.compile(f'"{MARK}([^"]*){MARK}"')
"""A number as the standard library writes it, which has no way to write a Decimal."""


class WrittenFloat(float):
    """A float, with the number as it is written."""

    text: str

    def __new__(cls, text: str) -> WrittenFloat:
        number = super().__new__(cls, text)
        number.text = text.replace("_", "")
        return number

    @property
    def decimal(self) -> Decimal:
        """The number, exactly."""
        return Decimal(self.text)


def dumps(value: Any, default: Callable[[object], str]) -> str:
    """The JSON of a value, with a WrittenFloat and a Decimal as they are written.

    default  as in json.dumps, for values that JSON does not have
    """
    text = json.dumps(_marked(value), default=default, ensure_ascii=False)
    return MARKED.sub(r"\1", text)


def _marked(value: Any) -> Any:
    match value:
        case dict():
            return {key: _marked(element) for key, element in value.items()}
        case list():
            return [_marked(element) for element in value]
        case WrittenFloat():
            return f"{MARK}{value.text.removeprefix('+')}{MARK}"
        case Decimal():
            return f"{MARK}{value}{MARK}"
        case _:
            return value
