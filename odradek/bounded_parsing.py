"""JSON, TOML and integers of files, znodes and requests that other programs wrote.

The parsers of the standard library raise more than their documents say: RecursionError for depth,
ValueError for an integer of 5,000 digits, UnicodeDecodeError; and they accept what fails later, in
other code: infinity, a lone surrogate, a value too deep to be printed.  Here all of that is one
error, `UnreadableText`.
Source of the bound of the depth: Kafka reads JSON with Jackson, which stops at 1,000 levels.
"""

from __future__ import annotations

import json
import math
from functools import partial
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from decimal import Decimal

DEPTH_MAX: Final = 100
"""Levels of arrays and objects; printing or writing a value takes a level of the stack each."""
DIGITS_MAX: Final = 400
"""Digits of a number; any double can be written out in as many before the point."""
BYTES_MAX: Final = 64 << 20
_BYTE_ORDER_MARK: Final = "\ufeff"


class UnreadableText(ValueError):
    """The text is not what it should be, or exceeds a bound; the message says which."""


def parse_json(
    text: str | bytes,
    *,
    bytes_max: int = BYTES_MAX,
    is_decimal: bool = False,
    float_type: type[float] = float,
) -> Any:
    """The value of a JSON document.

    text        bytes are UTF-8; a byte order mark is passed over
    is_decimal  numbers with a point or an exponent become Decimals, which have all their digits
    float_type  made of their digits otherwise
    raises      UnreadableText, also for NaN, infinite numbers and lone surrogates
    cost        that of `json.loads`, and a step for each array, object and number
    """
    document = _decoded(text, bytes_max)
    try:
        value = _decoder(float_type, is_decimal=is_decimal).decode(document)
    except UnreadableText:
        raise
    except (ValueError, RecursionError) as error:
        raise _unreadable(error) from None
    _check(value, document)
    return value


def first_json_value(text: str, *, bytes_max: int = BYTES_MAX) -> Any:
    """The JSON value at the start of a text; what follows it is not read.

    raises  UnreadableText
    """
    document = _decoded(text, bytes_max).lstrip()
    try:
        value, end = _JSON.raw_decode(document)
    except UnreadableText:
        raise
    except (ValueError, RecursionError) as error:
        raise _unreadable(error) from None
    _check(value, document[:end])
    return value


def parse_toml(
    text: str, *, bytes_max: int = BYTES_MAX, float_type: type[float] = float
) -> dict[str, Any]:
    """The table of a TOML document.

    float_type  made of the digits of a number with a point or an exponent
    raises      UnreadableText
    """
    import tomllib

    document = _decoded(text, bytes_max)
    try:
        table = tomllib.loads(document, parse_float=float_type)
    except (ValueError, RecursionError) as error:
        raise _unreadable(error) from None
    _check_depth(table)
    _check_integers(table)
    return table


def parse_integer(text: str | bytes, least: int, largest: int) -> int:
    """An integer in decimal ASCII digits, with a sign or without.

    raises  UnreadableText
    """
    digits = text.decode("latin-1") if isinstance(text, bytes) else text
    if len(digits) > DIGITS_MAX or not digits.isascii() or "_" in digits:
        raise UnreadableText(f"not an integer: {digits[:40]!r}")
    try:
        number = int(digits)
    except ValueError:
        raise UnreadableText(f"not an integer: {digits[:40]!r}") from None
    if not least <= number <= largest:
        raise UnreadableText(f"{digits[:40]} is not between {least} and {largest}")
    return number


def _integer(digits: str) -> int:
    if len(digits) > DIGITS_MAX:
        raise UnreadableText(f"a number has {len(digits)} digits, {DIGITS_MAX} are allowed")
    return int(digits)


def _finite(digits: str, float_type: type[float] = float) -> float:
    if len(digits) > DIGITS_MAX or math.isinf(number := float_type(digits)):
        raise UnreadableText(f"the number {digits[:40]} is out of range")
    return number


def _decimal(digits: str) -> Decimal:
    from decimal import Decimal

    try:
        number = Decimal(digits if len(digits) <= DIGITS_MAX else "Infinity")
    except ArithmeticError:
        number = Decimal("Infinity")
    # Its integer would have as many digits.
    if not number.is_finite() or abs(number.adjusted()) > DIGITS_MAX:
        raise UnreadableText(f"the number {digits[:40]} is out of range")
    return number


def _refuse_constant(name: str) -> float:
    raise UnreadableText(f"{name} is not a number of JSON")


def _decoder(float_type: type[float], *, is_decimal: bool) -> json.JSONDecoder:
    if float_type is float and not is_decimal:
        return _JSON
    return json.JSONDecoder(
        parse_int=_integer,
        parse_float=_decimal if is_decimal else partial(_finite, float_type=float_type),
        parse_constant=_refuse_constant,
    )


_JSON: Final = json.JSONDecoder(
    parse_int=_integer, parse_float=_finite, parse_constant=_refuse_constant
)


def _decoded(text: str | bytes, bytes_max: int) -> str:
    if len(text) > bytes_max:
        raise UnreadableText(f"the text has {len(text)} bytes, {bytes_max} are allowed")
    try:
        if isinstance(text, bytes):
            text = text.decode()
        else:
            text.encode()
    except UnicodeError:
        raise UnreadableText("not UTF-8") from None
    return text.removeprefix(_BYTE_ORDER_MARK)


def _unreadable(error: Exception) -> UnreadableText:
    if isinstance(error, RecursionError):
        return UnreadableText(f"more than {DEPTH_MAX} levels deep")
    text = str(error)
    # What follows in Python's message is advice for programs.
    return UnreadableText("a number has too many digits" if "digits)" in text else text)


def _check(value: object, document: str) -> None:
    _check_depth(value)
    if "\\u" in document:
        # Only an escape can make a lone surrogate, which nothing can write or send.
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise UnreadableText("a lone surrogate") from None


def _check_depth(value: object) -> None:
    level: list[object] = [value]
    for _ in range(DEPTH_MAX):
        level = [inner for outer in level for inner in _contained(outer)]
        if not level:
            return
    raise UnreadableText(f"more than {DEPTH_MAX} levels deep")


def _check_integers(value: object) -> None:
    """TOML promises integers of 64 bits; the depth is checked already."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            _check_integers(inner)
    elif isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise UnreadableText("an integer has more than 64 bits")


def _contained(value: object) -> list[object]:
    """The arrays and objects in an array or object."""
    if isinstance(value, dict):
        return [inner for inner in value.values() if isinstance(inner, dict | list)]
    if isinstance(value, list):
        return [inner for inner in value if isinstance(inner, dict | list)]
    return []
