"""The source of the flat encoding function of one class and version.

As in `decoder_source`, runs of fixed-size fields are one precompiled Struct, and so are the length
that follows them and the empty tagged sections.  The function collects chunks of bytes in a list
and joins them once.

A value that does not fit its field (a number out of range, None where null is not allowed) is our
own error and raises what Python raises for it.

A function *in steps* is a generator: it yields after some elements of an array, so that its caller
can do other work in between, and leaves what it has written to a `Gathered`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import Final

from odradek.protocol.schema import (
    BYTES,
    RECORDS,
    STRING,
    UUID,
    ArrayOf,
    Field,
    FieldType,
    Primitive,
    Required,
    default_value,
    schema_of,
)
from odradek.protocol.source_writer import SourceWriter
from odradek.protocol.uvarint import encode_uvarint

COUNTED_MAX: Final = 16
"""Replicas of a partition, brokers of a small cluster: longer arrays of numbers are rare."""

STEP_CHUNKS: Final = 64
"""Chunks that are joined at a time in steps: some ten elements."""

PADDING: Final = "x"
"""A zero byte without a value: the count of an empty tagged section."""


@cache
def counted_packs(code: str) -> tuple[Callable[..., bytes], ...]:
    """By count, what packs so many numbers: cheaper than a format made for the call."""
    return tuple(struct.Struct(f">{count}{code}").pack for count in range(COUNTED_MAX + 1))


class EncoderSource(SourceWriter):
    """Source lines, and the run of fixed-size values that is not written yet.

    `out` is the name of the list in the source that chunks are appended to: another one while the
    content of a tagged field is collected, whose size must be known first.
    """

    def __init__(
        self, cls: type, version: int, *, in_parts: bool = False, in_steps: bool = False
    ) -> None:
        super().__init__(cls, version, depth=1)
        self.in_steps = in_steps
        self.in_parts = in_parts
        self.out = "out"
        self.namespace |= {
            "uvarint": encode_uvarint,
            "pack": struct.pack,
            "bytes_like": (bytes, bytearray, memoryview),
        }

    def source(self) -> str:
        """A function `encode`, whose globals are `namespace`."""
        self.structure(self.cls, "value")
        self.flush()
        if self.in_steps:
            last = ["    gather(out)", "    yield"]
            head = ["def encode(value, gathered):", "    gather = gathered.add", "    out = []"]
            return "\n".join([*head, *self.lines, *last])
        start, end = ["    out = []"], ["    return b''.join(out)"]
        if self.in_parts:
            start += ["    parts = []"]
            end = ["    if out:", "        parts.append(b''.join(out))", "    return parts"]
        return "\n".join(["def encode(value):", *start, *self.lines, *end])

    def packed(self, run: list[tuple[str, str]]) -> str:
        """The expression whose value is the bytes of a run."""
        codes = "".join(code for code, _ in run)
        if not codes.strip(PADDING):
            return repr(bytes(len(codes)))
        pack = f"pack_{codes.replace('?', 'o')}"
        self.namespace.setdefault(pack, struct.Struct(f">{codes}").pack)
        return f"{pack}({', '.join(text for code, text in run if code != PADDING)})"

    def flush(self) -> None:
        """Write the run of fixed-size values."""
        if self.run:
            self.line(f"{self.out}.append({self.packed(self.run)})")
            self.run.clear()

    def structure(self, cls: type, value: str) -> None:
        """Write the fields of an object."""
        schema = schema_of(cls)
        for each in schema.plain_fields(self.version):
            self.value(
                each.type,
                f"{value}.{each.name}",
                is_flexible=self.is_flexible and each.is_flexible,
                is_nullable=self.version in each.nullable,
            )
        if self.is_flexible:
            self.tagged_section(schema.tagged_fields(self.version), value)

    def value(self, type_: FieldType, value: str, *, is_flexible: bool, is_nullable: bool) -> None:
        """Write the value of an expression."""
        if isinstance(type_, ArrayOf):
            self.array(type_.element, value, is_flexible=is_flexible, is_nullable=is_nullable)
        elif not isinstance(type_, Primitive):
            if is_nullable:
                self.nullable_structure(type_, value, null=b"\xff", code="b")
            else:
                inner = self.name("o")
                self.line(f"{inner} = {value}")
                self.structure(type_, inner)
        elif type_ is UUID:
            self.run.append((type_.code, f"{value}.int.to_bytes(16, 'big')"))
        elif type_.code:
            self.run.append((type_.code, value))
        else:
            self.content(type_, value, is_flexible=is_flexible, is_nullable=is_nullable)

    def length(self, length: str, code: str, *, is_flexible: bool) -> None:
        """Write the run and a length; a flexible one is a name that holds the length plus one."""
        if not is_flexible:
            self.run.append((code, length))
            self.flush()
            return
        self.line(f"if {length} < 128:")
        self.line(f"    {self.out}.append({self.packed([*self.run, ('B', length)])})")
        self.line("else:")
        if self.run:
            self.line(f"    {self.out}.append({self.packed(self.run)})")
        self.line(f"    {self.out}.append(uvarint({length}))")
        self.run.clear()

    def content(
        self, type_: Primitive, value: str, *, is_flexible: bool, is_nullable: bool
    ) -> None:
        """Write a string, bytes or records."""
        content, length = self.name("c"), self.name("n")
        plus = " + 1" if is_flexible else ""
        taken = f"{value}.encode()" if type_ is STRING else value
        if is_nullable:
            self.line(f"{content} = {value}")
            self.line(f"if {content} is None:")
            self.line(f"    {length} = {0 if is_flexible else -1}")
            self.line("else:")
            if type_ is STRING:
                self.line(f"    {content} = {content}.encode()")
            self.line(f"    {length} = len({content}){plus}")
        else:
            self.line(f"{content} = {taken}")
            self.line(f"{length} = len({content}){plus}")
        self.length(length, "h" if type_ is STRING else "i", is_flexible=is_flexible)
        if is_nullable:
            with self.block(f"if {content} is not None:"):
                self.append_content(type_, content)
        else:
            self.append_content(type_, content)

    def append_content(self, type_: Primitive, content: str) -> None:
        """Add bytes, or begin a new part around a slice of a file."""
        if type_ is not RECORDS or not (self.in_parts or self.in_steps):
            assert type_ in (STRING, BYTES, RECORDS)
            self.line(f"{self.out}.append({content})")
            return
        assert self.out == "out", "records in a tagged field"
        with self.block(f"if isinstance({content}, bytes_like):"):
            self.line(f"out.append({content})")
        with self.block("else:"):
            if self.in_steps:
                self.line("gather(out)")
                self.line(f"gathered.add_slice({content})")
                return
            self.line("parts.append(b''.join(out))")
            self.line(f"parts.append({content})")
            self.line("out.clear()")

    def nullable_structure(self, cls: type, value: str, *, null: bytes, code: str) -> None:
        """Write `null`, or 1 and the structure."""
        self.flush()
        inner = self.name("o")
        self.line(f"{inner} = {value}")
        with self.block(f"if {inner} is None:"):
            self.line(f"{self.out}.append({null!r})")
        with self.block("else:"):
            self.run.append((code, "1"))
            self.structure(cls, inner)

    def array(
        self, element: Primitive | type, value: str, *, is_flexible: bool, is_nullable: bool
    ) -> None:
        """Write a count and the elements."""
        items, count = self.name("items"), self.name("n")
        plus = " + 1" if is_flexible else ""
        self.line(f"{items} = {value}")
        if is_nullable:
            null = 0 if is_flexible else -1
            self.line(f"{count} = {null} if {items} is None else len({items}){plus}")
        else:
            self.line(f"{count} = len({items}){plus}")
        self.length(count, "i", is_flexible=is_flexible)
        with self.block(f"if {items}:"):
            self.elements(element, items, is_flexible=is_flexible)

    def elements(self, element: Primitive | type, items: str, *, is_flexible: bool) -> None:
        """Write the elements."""
        if isinstance(element, Primitive) and element.code and element is not UUID:
            self.numbers(element.code, items)
            return
        item = self.name("o")
        with self.block(f"for {item} in {items}:"):
            if isinstance(element, type):
                self.structure(element, item)
            else:
                self.value(element, item, is_flexible=is_flexible, is_nullable=False)
            self.flush()
            if self.in_steps and self.out == "out":
                self.line(f"if len(out) > {STEP_CHUNKS}:")
                self.line("    gather(out)")
                self.line("    yield")

    def numbers(self, code: str, items: str) -> None:
        """Write an array of numbers at once."""
        packs = f"packs_{code.replace('?', 'o')}"
        self.namespace[packs] = counted_packs(code)
        count = self.name("n")
        self.line(f"{count} = len({items})")
        self.line(f"if {count} <= {COUNTED_MAX}:")
        self.line(f"    {self.out}.append({packs}[{count}](*{items}))")
        self.line("else:")
        self.line(f"    {self.out}.append(pack(f'>{{{count}}}{code}', *{items}))")

    def tagged_section(self, tagged: list[Field], value: str) -> None:
        """Write the tagged fields that do not have their defaults."""
        if not tagged:
            self.run.append((PADDING, ""))
            return
        names = [self.name("f") for _ in tagged]
        for each, name in zip(tagged, names, strict=True):
            self.line(f"{name} = {value}.{each.name}")
        present = [self.is_present(each, name) for each, name in zip(tagged, names, strict=True)]
        before = list(self.run)
        self.run.clear()
        with self.block(f"if not ({' or '.join(present)}):"):
            self.run = [*before, (PADDING, "")]
        with self.block("else:"):
            self.run = before
            self.flush()
            sections = self.name("tags")
            self.line(f"{sections} = []")
            for each, name, condition in zip(tagged, names, present, strict=True):
                with self.block(f"if {condition}:"):
                    self.tagged_field(each, name, sections)
            self.line(f"{self.out}.append(uvarint(len({sections})))")
            self.line(f"{self.out}.extend({sections})")

    def is_present(self, each: Field, value: str) -> str:
        """The condition under which a tagged field is written."""
        if isinstance(each.type, type) and each.default is None:
            if self.version in each.nullable:
                return f"{value} is not None"
            return f"{value} is not None and ({self.differs(each.type, value)})"
        default = default_value(each)
        if default is None:
            return f"{value} is not None"
        if default == []:
            return f"{value} is None or {value}" if self.version in each.nullable else value
        if each.has_fresh_default or not isinstance(default, bool | int | str):
            name = self.constant("default", default)
            return f"{value} is not {name} and {value} != {name}"
        return f"{value} != {default!r}"

    def differs(self, cls: type, value: str) -> str:
        """The condition under which a structure is not the one that has all the defaults."""
        fields = schema_of(cls).fields
        if any(each.default is Required for each in fields):
            return "True"
        return f"{value} != {self.constant('default', cls())}"

    def tagged_field(self, each: Field, value: str, sections: str) -> None:
        """Write tag, size and content of a tagged field."""
        outer, self.out = self.out, self.name("out")
        content = self.name("c")
        self.line(f"{self.out} = []")
        is_nullable = self.version in each.nullable
        if is_nullable and isinstance(each.type, type):
            self.nullable_structure(each.type, value, null=b"\x00", code="B")
        else:
            self.value(each.type, value, is_flexible=True, is_nullable=is_nullable)
        self.flush()
        self.line(f"{content} = b''.join({self.out})")
        self.out = outer
        assert each.tag is not None
        head = encode_uvarint(each.tag)
        self.line(f"{sections}.append({head!r} + uvarint(len({content})) + {content})")
