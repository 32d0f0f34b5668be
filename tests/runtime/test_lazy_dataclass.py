"""Classes of the lazy decorator beside the same classes of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
import pickle
import re
import unittest.mock
from collections.abc import Callable
from contextlib import suppress
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
    checked: Any
    unusual: Any
    empty: Any


def more_declared(decorator: Callable[..., Any]) -> tuple[Any, Any, Any]:
    @decorator(frozen=True, slots=True)
    class Checked:
        size: int
        label: str = "none"
        tags: list[str] = field(default_factory=list)

        def __post_init__(self) -> None:
            if self.size < 0:
                raise ValueError(self.size)

    @decorator(frozen=True, slots=True)
    class Unusual:
        value: float
        note: str = field(default="", compare=False)
        code: int = field(default=0, kw_only=True)

    @decorator(frozen=True, slots=True)
    class Empty:
        pass

    return Checked, Unusual, Empty


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

    made = Classes(Point, Named, Mutable, Derived, Identity, Box, *more_declared(decorator))
    for cls in made:
        cls.__qualname__ = cls.__name__
    return made


Point, Named, Mutable, Derived, Identity, Box, *_ = declare(lazy_dataclass.dataclass)
"""Pickle looks them up by name."""


def without_place(text: str) -> str:
    return re.sub(r"\w+\.<locals>\.", "", text)


def outcome(action: Callable[[Classes], Any], classes: Classes) -> Any:
    try:
        return action(classes)
    except Exception as error:  # noqa: BLE001 - what is compared
        return type(error), without_place(str(error))


def with_size(value: Any, size: int) -> Any:
    value.size = size
    return value


def first_used(cls: Any) -> Any:
    """The class, once its methods were called."""
    with suppress(TypeError, AttributeError):
        cls(**dict.fromkeys(cls.__slots__, 1)).__eq__(0)
    return cls


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
    "hash is that of the values": lambda c: [
        hash(c.point(1)),
        hash(c.unusual(1.5, "a")),
        hash(c.generic(None)),
        hash(c.empty()),
    ],
    "equal without what is not compared": lambda c: [
        c.unusual(1.5, "a") == c.unusual(1.5, "b"),
        c.unusual(1.5, code=1) == c.unusual(1.5, code=2),
        c.empty() == c.empty(),
    ],
    "equal with what equals nothing": lambda c: [
        c.generic(math.nan) == c.generic(math.nan),
        c.generic(math.nan) == c.generic(float("nan")),
    ],
    "equal to what decides itself": lambda c: (
        c.point(1) == unittest.mock.ANY,
        c.point(1) != unittest.mock.ANY,
    ),
    "no hash of a list": lambda c: hash(c.checked(1)),
    "signatures": lambda c: [str(inspect.signature(first_used(cls))) for cls in c],
    "names of methods": lambda c: [
        (method.__module__, without_place(method.__qualname__), method.__doc__)
        for cls in (c.point, c.named, c.checked)
        for method in (first_used(cls).__init__, first_used(cls).__eq__)
    ],
    "refused by post init": lambda c: c.checked(-1),
    "frozen with post init": lambda c: repr(
        (c.checked(1), c.checked(1, tags=["a"]), c.checked(1, "l", ["b"]))
    ),
    "too many names": lambda c: c.checked(1, "l", [], 4),
    "empty": lambda c: (repr(c.empty()), c.empty(1)),
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


def test_declaration_that_the_standard_library_refuses_is_refused_at_the_first_use() -> None:
    def mutable_default(decorator: Callable[..., Any]) -> Any:
        @decorator(slots=True)
        class Declared:
            content: list[int] = []

        return Declared()

    def default_first(decorator: Callable[..., Any]) -> Any:
        @decorator(slots=True)
        class Declared:
            size: int = 1
            label: str

        return Declared()

    for declared in (mutable_default, default_first):
        texts = set()
        for decorator in (lazy_dataclass.dataclass, dataclasses.dataclass):
            with pytest.raises((TypeError, ValueError)) as caught:
                declared(decorator)
            texts.add(str(caught.value))
        assert len(texts) == 1


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
