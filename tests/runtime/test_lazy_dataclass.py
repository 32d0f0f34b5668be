"""Classes of the lazy decorator beside the same classes of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import pytest

from odradek.runtime import lazy_dataclass

T = TypeVar("T")


class Classes(NamedTuple):
    """The same declarations, made by one decorator."""

    point: Any
    named: Any
    mutable: Any
    derived: Any
    identity: Any
    generic: Any


def declare(decorator: Callable[..., Any]) -> Classes:
    @decorator(frozen=True, slots=True)
    class Point:
        count: ClassVar[int] = 7
        x: int
        y: int = 2

        @property
        def total(self) -> int:
            return self.x + self.y

    @decorator(frozen=True, slots=True, kw_only=True)
    class Named:
        name: str
        tags: list[str] = field(default_factory=list)

    @decorator(slots=True)
    class Mutable:
        size: int
        parts: dict[str, int] = field(default_factory=dict)
        double: int = field(init=False, default=0)

        def __post_init__(self) -> None:
            self.double = 2 * self.size

    @decorator(slots=True)
    class Derived(Mutable):
        label: str = "none"

    @decorator(frozen=True, slots=True, eq=False)
    class Identity:
        value: int

    @decorator(frozen=True, slots=True)
    class Box(Generic[T]):
        content: T

    made = Classes(Point, Named, Mutable, Derived, Identity, Box)
    for cls in made:
        cls.__qualname__ = cls.__name__
    return made


Point, Named, Mutable, Derived, Identity, Box = declare(lazy_dataclass.dataclass)
"""Pickle looks them up by name."""


def outcome(action: Callable[[Classes], Any], classes: Classes) -> Any:
    try:
        return action(classes)
    except Exception as error:  # noqa: BLE001 - what is compared
        return type(error), str(error).replace("declare.<locals>.", "")


def with_size(value: Any, size: int) -> Any:
    value.size = size
    return value


def matched(value: Any, classes: Classes) -> Any:
    point, derived = classes.point, classes.derived
    match value:
        case point(x, y):
            return x, y
        case derived(size, parts, label):
            return size, parts, label
    return None


ACTIONS: dict[str, Callable[[Classes], Any]] = {
    "repr": lambda c: repr(
        (c.point(1), c.named(name="n"), c.derived(3, label="l"), c.generic("a"))
    ),
    "too few": lambda c: c.point(),
    "too many": lambda c: c.point(1, 2, 3),
    "unknown name": lambda c: c.mutable(size=1, weight=2),
    "positional where names are required": lambda c: c.named("n"),
    "equal": lambda c: (c.point(1) == c.point(1, 2), c.point(1) != c.point(2), c.point(1) == 5),
    "derived differs": lambda c: c.derived(1) == c.mutable(1),
    "identity": lambda c: c.identity(1) == c.identity(1),
    "hash": lambda c: (hash(c.point(1)) == hash(c.point(1, 2)), hash(c.point(1)) == hash((1, 2))),
    "no hash": lambda c: hash(c.mutable(1)),
    "set": lambda c: setattr(c.point(1), "x", 5),
    "set unknown": lambda c: setattr(c.mutable(1), "weight", 5),
    "delete": lambda c: delattr(c.point(1), "x"),
    "set mutable": lambda c: with_size(c.mutable(1), 9).size,
    "replace": lambda c: repr(dataclasses.replace(c.point(1), y=8)),
    "replace what is derived": lambda c: repr(dataclasses.replace(c.derived(1), label="new")),
    "fields": lambda c: [
        [
            (one.name, one.type, one.default, one.init, one.kw_only)
            for one in dataclasses.fields(cls)
        ]
        for cls in c
    ],
    "asdict": lambda c: dataclasses.asdict(c.derived(1, {"a": 2})),
    "is dataclass": lambda c: [dataclasses.is_dataclass(cls) for cls in c],
    "match": lambda c: (matched(c.point(1), c), matched(c.derived(1), c)),
    "own defaults": lambda c: c.named(name="a").tags is not c.named(name="b").tags,
    "post init": lambda c: (c.mutable(4).double, c.derived(5).double),
    "no dictionary": lambda c: [hasattr(c.mutable(1), "__dict__"), c.derived.__slots__],
    "property and class variable": lambda c: (c.point(1).total, c.point.count),
    "copy": lambda c: repr((copy.copy(c.point(4)), copy.deepcopy(c.derived(5)))),
}


@pytest.mark.parametrize("action", ACTIONS)
def test_lazy_class_does_what_the_standard_one_does(action: str) -> None:
    lazy, standard = (
        outcome(ACTIONS[action], declare(one))
        for one in (
            lazy_dataclass.dataclass,
            dataclasses.dataclass,
        )
    )
    assert lazy == standard


def test_result_does_not_depend_on_the_order_of_first_uses() -> None:
    for first in ACTIONS:
        lazy, standard = declare(lazy_dataclass.dataclass), declare(dataclasses.dataclass)
        for action in (first, *ACTIONS):
            assert outcome(ACTIONS[action], lazy) == outcome(ACTIONS[action], standard), action


def test_pickled_value_equals_the_original() -> None:
    for value in (Point(3), Named(name="n", tags=["t"]), Derived(7, {"a": 1}, "l"), Box("c")):
        assert pickle.loads(pickle.dumps(value)) == value


def test_nothing_is_generated_before_the_first_use() -> None:
    cls = declare(lazy_dataclass.dataclass).point
    placeholder = cls.__init__
    assert isinstance(placeholder, type(declare))
    cls(1)
    assert cls.__init__ is not placeholder
    with pytest.raises(FrozenInstanceError):
        cls(1).x = 2


def test_no_signature_is_computed_for_a_generated_method(monkeypatch: pytest.MonkeyPatch) -> None:
    # It makes the docstring of a standard class, and costs more than all of its methods.
    def refuse(cls: type) -> None:
        raise AssertionError(f"signature of {cls}")

    cls = declare(lazy_dataclass.dataclass).point
    monkeypatch.setattr(inspect, "signature", refuse)
    value = cls(1)
    assert value == cls(1)
    assert repr(value)
    assert {value: 2}[cls(1)] == 2
    assert dataclasses.fields(cls)
