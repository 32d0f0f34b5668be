"""`dataclasses.dataclass` whose methods are generated when they are first called.

The standard library generates the code of up to six methods of a class when the class is made; for
the hundred classes that a start imports that takes a third of its time, and most of them are not
used before the broker is ready.  Here the class has placeholders, which make their methods at the
first call and are replaced by them: with `dataclass_methods` where that is enough, else with the
standard library.  From then on there is no difference.  To a type checker it is the standard
decorator.

All options are the standard ones; `slots=True` is required.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from odradek.runtime.dataclass_methods import Declaration, write

__all__ = ["dataclass"]


class _Fields:
    """`__dataclass_fields__` until it is read: by `fields`, `replace`, a class that inherits."""

    def __init__(self, made: _Made) -> None:
        self._made = made

    def __get__(self, instance: object, owner: type) -> dict[str, Any]:
        return self._made.fields()


class _Made:
    """How the methods of one class are made."""

    def __init__(self, declared: type, options: dict[str, Any]) -> None:
        self._options = options
        self._annotations = dict(declared.__dict__.get("__annotations__", {}))
        names = [name for name, type_ in self._annotations.items() if "ClassVar[" not in str(type_)]
        self._types = {name: self._annotations[name] for name in names}
        content = dict(declared.__dict__)
        self._defaults = {name: content.pop(name) for name in names if name in content}
        inherited = {
            slot for base in declared.__mro__ for slot in base.__dict__.get("__slots__", ())
        }
        content["__slots__"] = tuple(name for name in names if name not in inherited)
        content.pop("__dict__", None)
        content.pop("__weakref__", None)
        content["__dataclass_fields__"] = _Fields(self)
        if not options.get("kw_only", False):
            positional = [name for name in names if not _is_named(self._defaults.get(name))]
            content["__match_args__"] = (*getattr(declared, "__match_args__", ()), *positional)
        self._add_methods(content)
        self.cls = type(declared)(declared.__name__, declared.__bases__, content)
        self.cls.__qualname__ = declared.__qualname__

    def _add_methods(self, content: dict[str, Any]) -> None:
        is_frozen = self._options.get("frozen", False)
        generated = ["__init__", "__repr__"]
        if self._options.get("eq", True):
            generated += ["__eq__", "__hash__"] if is_frozen else ["__eq__"]
        for name in generated:
            if name not in content:
                content[name] = self._placeholder(name)
        if is_frozen:
            content |= {"__setattr__": _refuse_set, "__delattr__": _refuse_delete}
            content |= {"__getstate__": _get_state, "__setstate__": _set_state}

    def _placeholder(self, name: str) -> Callable[..., Any]:
        def generate(*arguments: Any, **named: Any) -> Any:
            method = self._written(name) or getattr(self._standard(name), name)
            setattr(self.cls, name, method)
            return method(*arguments, **named)

        return generate

    def _written(self, name: str) -> Callable[..., Any] | None:
        declared = Declaration(
            self.cls,
            self._types,
            self._defaults,
            is_frozen=self._options.get("frozen", False),
            is_keyword_only=self._options.get("kw_only", False),
        )
        return write(name, declared) if name != "__repr__" and declared.is_common() else None

    def _standard(self, name: str | None) -> type:
        """A class with the same fields on which the standard library has generated one method."""
        has_eq = name in ("__eq__", "__hash__")
        content = self._defaults | {
            "__annotations__": self._annotations,
            "__doc__": "-",  # an empty one would be made from the signature: 1 ms
            "__module__": self.cls.__module__,
            "__qualname__": self.cls.__qualname__,
        }
        if hasattr(self.cls, "__post_init__"):
            content["__post_init__"] = None
        bases = tuple(base for base in self.cls.__bases__ if dataclasses.is_dataclass(base))
        standard = type(self.cls.__name__, bases, content)
        options = self._options | {"init": name == "__init__", "repr": name == "__repr__"}
        return dataclasses.dataclass(**options | {"eq": has_eq, "slots": False})(standard)

    def fields(self) -> dict[str, Any]:
        """`__dataclass_fields__`; the parameters are set with it, which inheriting classes read."""
        standard: Any = self._standard(None)
        cls: Any = self.cls
        cls.__dataclass_params__ = standard.__dataclass_params__
        cls.__dataclass_fields__ = standard.__dataclass_fields__
        found: dict[str, Any] = cls.__dataclass_fields__
        return found


def _is_named(default: Any) -> bool:
    """Whether a field is none of the positional arguments."""
    return isinstance(default, dataclasses.Field) and (not default.init or default.kw_only is True)


def _refuse_set(self: object, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


def _lazy(*, slots: bool, **options: Any) -> Callable[[type], type]:
    assert slots, "only classes with slots are made here"
    return lambda declared: _Made(declared, options).cls


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = _lazy
