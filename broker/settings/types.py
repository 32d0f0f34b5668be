"""What a setting may be: its type, its rule, and how text becomes a value and text again.

Parsing follows Kafka's `ConfigDef.parseType`: text is trimmed first, a list is split at commas with
the white space around them, a class is known by its name only (nothing is loaded).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from odradek.broker.settings.rules import Rule, Value, broken_rule

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
DOUBLE_MAX: Final = 1.7976931348623157e308
"""Java's `Double.MAX_VALUE`."""


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
    """How much a setting matters to an operator, as Kafka ranks it."""

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


BOOLEAN: Final = ConfigType.BOOLEAN
STRING: Final = ConfigType.STRING
INT: Final = ConfigType.INT
SHORT: Final = ConfigType.SHORT
LONG: Final = ConfigType.LONG
DOUBLE: Final = ConfigType.DOUBLE
LIST: Final = ConfigType.LIST
CLASS: Final = ConfigType.CLASS
PASSWORD: Final = ConfigType.PASSWORD
HIGH: Final = Importance.HIGH
MEDIUM: Final = Importance.MEDIUM
LOW: Final = Importance.LOW
READ_ONLY: Final = UpdateMode.READ_ONLY
PER_BROKER: Final = UpdateMode.PER_BROKER
CLUSTER_WIDE: Final = UpdateMode.CLUSTER_WIDE


class Definition(NamedTuple):
    """A row of the tables of settings."""

    name: str
    type: ConfigType
    default: Value
    """None: not set.  A list stands as its text, with commas."""
    rule: Rule | None
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
        """What a number counts, from the end of its name; None where it has no unit."""
        return unit_of(self.name)


class SettingsError(ValueError):
    """Settings that a broker cannot run with, told in one line."""


class InvalidValueError(SettingsError):
    """A value that a setting may not have; the text names key, value and what is allowed."""

    def __init__(self, name: str, shown_value: object, allowed: str) -> None:
        super().__init__(f"Invalid value {shown_value} for configuration {name}: {allowed}")
        self.name = name
        self.allowed = allowed


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
"""What Java's `String.trim` takes off: everything up to the space."""


def parse_value(definition: Definition, text: str) -> Value:
    """The value that `text` stands for, checked against type and rule.

    raises  InvalidValueError
    """
    value = parse_type(definition, text)
    check_value(definition, value)
    return value


def check_value(definition: Definition, value: Value) -> None:
    """Hold a parsed value against the rule of its setting.

    raises  InvalidValueError
    """
    if definition.rule is None:
        return
    broken = broken_rule(definition.rule, value)
    if broken is not None:
        shown = "[hidden]" if definition.is_sensitive else broken.shown_value
        raise InvalidValueError(definition.name, shown, broken.allowed)


def parse_type(definition: Definition, text: str) -> Value:
    """The value that `text` stands for; its rule is not looked at.

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
    """A decimal number with an optional sign, within its type's bits."""
    digits = trimmed[1:] if trimmed[:1] in ("+", "-") else trimmed
    if digits.isascii() and digits.isdigit() and len(digits) < 100:
        number = int(trimmed)
        low, high = INTEGER_LIMITS[definition.type]
        if low <= number <= high:
            return number
    raise InvalidValueError(definition.name, text, f"Not a number of type {definition.type}")


def parse_double(definition: Definition, text: str, trimmed: str) -> float:
    """A number as Java writes and reads it; `1d` and `Infinity` too, hexadecimal ones not."""
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
    raise InvalidValueError(definition.name, text, "Not a number of type DOUBLE")


def split_list(trimmed: str) -> tuple[str, ...]:
    """The items between commas; none at all for an empty text, empty ones otherwise."""
    if not trimmed:
        return ()
    return tuple(item.strip() for item in trimmed.split(","))


def value_text(value: Value) -> str | None:
    """A value as Kafka's DescribeConfigs shows it."""
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
    """A number as Java's `Double.toString` writes it: `0.5`, `1.0E-4`, `1.7976931348623157E308`."""
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
"""What stands at the end of a name, and what the number then counts; the first that fits counts."""


def unit_of(name: str) -> str | None:
    """The unit of a setting by its name's end; None for plain counts."""
    if name.endswith("replication.factor"):
        return None
    for ending, unit in UNIT_ENDINGS:
        if name.endswith(ending):
            return unit
    return None
