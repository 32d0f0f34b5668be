"""The types of settings, and the conversion of text to values and back.

Parsing follows Kafka's `ConfigDef.parseType`: text is trimmed first, a list is split at commas with
the white space around them, a class stays a name (nothing is loaded).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from odradek.broker.settings.rules import Between, Value, ValueRule, broken_rule, rule_text

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1


class ConfigType(StrEnum):
    """The types of Kafka's `ConfigDef.Type`."""

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"


class Importance(StrEnum):
    """Kafka's ranking of how much a setting matters to an operator."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class UpdateMode(StrEnum):
    """Whether a broker setting can change while the broker runs (KIP-226)."""

    READ_ONLY = "read-only"
    """Only by a restart."""
    PER_BROKER = "per-broker"
    """For one broker at a time."""
    CLUSTER_WIDE = "cluster-wide"
    """For one broker or, as a default, for all."""


LIST: Final = ConfigType.LIST
READ_ONLY: Final = UpdateMode.READ_ONLY
PER_BROKER: Final = UpdateMode.PER_BROKER


class Definition(NamedTuple):
    """One setting: a row of definitions.tsv."""

    name: str
    type: ConfigType
    default: Value
    """None: not set."""
    rule: ValueRule | None
    importance: Importance
    update_mode: UpdateMode
    documentation: str
    is_internal: bool = False
    """Accepted but not shown by DescribeConfigs."""

    @property
    def is_sensitive(self) -> bool:
        """Whether the value must never be shown."""
        return self.type is ConfigType.PASSWORD

    @property
    def unit(self) -> str | None:
        """The unit of a number, by the end of its name; None where it has none."""
        return unit_of(self.name)


SHOWN_MAX: Final = 100
"""Characters of a value that a line for an operator shows."""
ALLOWED_MAX: Final = 300


def shown_text(text: str, characters_max: int = SHOWN_MAX) -> str:
    """A text for one line of a terminal: cut, and what cannot be printed escaped."""
    cut = text if len(text) <= characters_max else f"{text[:characters_max]}..."
    return "".join(
        character if character.isprintable() else ascii(character)[1:-1] for character in cut
    )


class SettingsError(ValueError):
    """Settings that a broker cannot run with; the text is one line, that of Kafka's responses."""

    @property
    def line(self) -> str:
        """The line for an operator whose broker does not start."""
        return shown_text(str(self), ALLOWED_MAX)


class InvalidValueError(SettingsError):
    """An invalid value; the text names the setting, the value and what is allowed."""

    def __init__(self, name: str, shown_value: object, allowed: str, *, hint: str = "") -> None:
        """hint  more about what is allowed, which Kafka's text does not say"""
        super().__init__(f"Invalid value {shown_value} for configuration {name}: {allowed}")
        self.name = name
        self.allowed = allowed
        self._shown_value = str(shown_value)
        self._hint = hint

    @property
    def line(self) -> str:
        value, allowed = shown_text(self._shown_value), shown_text(self.allowed, ALLOWED_MAX)
        return f"Invalid value {value} for configuration {self.name}: {allowed}{self._hint}"


INTEGER_LIMITS: Final = {
    ConfigType.SHORT: (-(2**15), 2**15 - 1),
    ConfigType.INT: (-(2**31), INT_MAX),
    ConfigType.LONG: (-(2**63), LONG_MAX),
}

JAVA_SPECIAL_DOUBLES: Final = {
    "NaN": float("nan"),
    "+NaN": float("nan"),
    "-NaN": float("nan"),
    "Infinity": float("inf"),
    "+Infinity": float("inf"),
    "-Infinity": float("-inf"),
}

TRIMMED: Final = "".join(map(chr, range(33)))
"""The characters that Java's `String.trim` removes: everything up to the space."""


def parse_value(definition: Definition, text: str) -> Value:
    """Parse and check a value.

    raises  InvalidValueError
    """
    value = parse_type(definition, text)
    check_value(definition, value)
    return value


def check_value(definition: Definition, value: Value) -> None:
    """Check a parsed value against the rule of its setting.

    raises  InvalidValueError
    """
    if definition.rule is None:
        return
    broken = broken_rule(definition.rule, value)
    if broken is not None:
        shown = "[hidden]" if definition.is_sensitive else broken.shown_value
        raise InvalidValueError(definition.name, shown, broken.allowed)


def parse_type(definition: Definition, text: str) -> Value:
    """Parse a value without checking its rule.

    raises  InvalidValueError
    """
    trimmed = text.strip(TRIMMED)
    match definition.type:
        case ConfigType.BOOLEAN:
            lowered = trimmed.lower()
            if lowered not in ("true", "false"):
                allowed = "Expected value to be either true or false"
                raise InvalidValueError(definition.name, text, allowed)
            return lowered == "true"
        case ConfigType.INT | ConfigType.SHORT | ConfigType.LONG:
            return parse_integer(definition, text, trimmed)
        case ConfigType.DOUBLE:
            return parse_double(definition, text, trimmed)
        case ConfigType.LIST:
            return split_list(trimmed)
        case ConfigType.CLASS:
            if not trimmed:
                raise InvalidValueError(definition.name, text, "Expected the name of a class")
            return trimmed
        case ConfigType.STRING | ConfigType.PASSWORD:
            return trimmed


def parse_integer(definition: Definition, text: str, trimmed: str) -> int:
    """A decimal number with an optional sign, within the bounds of its type."""
    digits = trimmed[1:] if trimmed[:1] in ("+", "-") else trimmed
    if digits.isascii() and digits.isdigit() and len(digits) < 100:
        number = int(trimmed)
        low, high = INTEGER_LIMITS[definition.type]
        if low <= number <= high:
            return number
    raise _not_a_number(definition, text)


def _not_a_number(definition: Definition, text: str) -> InvalidValueError:
    low, high = INTEGER_LIMITS.get(definition.type, (None, None))
    allowed = rule_text(Between(low, high) if definition.rule is None else definition.rule)
    return InvalidValueError(
        definition.name,
        text,
        f"Not a number of type {definition.type}",
        hint=f"; allowed: a number in {allowed}",
    )


def parse_double(definition: Definition, text: str, trimmed: str) -> float:
    """A number in Java's syntax, `1d` and `Infinity` included; hexadecimal ones are refused."""
    special = JAVA_SPECIAL_DOUBLES.get(trimmed)
    if special is not None:
        return special
    plain = trimmed[:-1] if trimmed[-1:] in ("d", "D", "f", "F") else trimmed
    if plain[-1:].isdigit() or plain[-1:] == ".":
        try:
            if "_" not in plain:
                return float(plain)
        except ValueError:
            pass
    raise _not_a_number(definition, text)


def split_list(trimmed: str) -> tuple[str, ...]:
    """The items between commas, empty ones included; none for an empty text."""
    if not trimmed:
        return ()
    return tuple(item.strip() for item in trimmed.split(","))


def value_text(value: Value) -> str | None:
    """A value in the format of Kafka's DescribeConfigs."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return double_text(value)
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def double_text(value: float) -> str:
    """A number as in Java's `Double.toString`: `0.5`, `1.0E-4`, `1.7976931348623157E308`."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, power = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = whole + fraction
    exponent = int(power or 0) + len(whole) - 1 - (len(digits) - len(digits.lstrip("0")))
    digits = digits.strip("0")
    return f"{'-' if value < 0 else ''}{digits[0]}.{digits[1:] or '0'}E{exponent}"


UNIT_ENDINGS: Final = (
    (".bytes.per.second", "bytes/s"),
    (".throttled.rate", "bytes/s"),
    (".creation.rate", "connections/s"),
    (".ms", "ms"),
    ("sasl.kerberos.min.time.before.relogin", "ms"),
    (".seconds", "s"),
    (".secs", "s"),
    (".minutes", "min"),
    (".hours", "h"),
    (".bytes", "bytes"),
    (".buffer.size", "bytes"),
    (".bytes.between.snapshots", "bytes"),
    ("sasl.server.max.receive.size", "bytes"),
    (".key.length", "bits"),
    (".percentage", "%"),
    (".ratio", "share of 1"),
    (".factor", "share of 1"),
    (".jitter", "share of 1"),
)
"""(end of a name, unit of the number); the first match applies."""


def unit_of(name: str) -> str | None:
    """The unit of a setting, by the end of its name; None for plain counts."""
    if name.endswith("replication.factor"):
        return None
    for ending, unit in UNIT_ENDINGS:
        if name.endswith(ending):
            return unit
    return None
