"""Parses lines into records, as Kafka's LineMessageReader; standard input that Ctrl-C ends at once.

    value                             the default
    key <key.separator> value         parse.key=true
    headers <headers.delimiter> ...   parse.headers=true; headers are key:value,key:value

A line ends with LF, CR or CR LF.  Invalid UTF-8 is read as U+FFFD, as in Java.
Source: Kafka 3.9's ConsoleProducer.LineMessageReader.
"""

from __future__ import annotations

import io
import os
import re
import select
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import BinaryIO, Final, NamedTuple

from odradek.tools.console.errors import KAFKA_EXCEPTION, ConsoleError
from odradek.tools.java_patterns import compile_java_pattern


class LineRecord(NamedTuple):
    key: str | None
    value: str | None
    headers: list[tuple[str, bytes | None]]


def lines_of(file: BinaryIO) -> Iterator[str]:
    """The lines of a file without line ends, each as soon as it has been read."""
    for line in io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline=None):
        yield line.removesuffix("\n")


class LineReader:
    """Splits a line into headers, key and value."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """raises  ConsoleError for separators that cannot be distinguished"""

        def is_true(name: str) -> bool:
            return properties.get(name, "").strip().lower() == "true"

        self.parses_key = is_true("parse.key")
        self.parses_headers = is_true("parse.headers")
        self.null_marker = properties.get("null.marker")
        self._ignores_errors = is_true("ignore.error")
        self._key_separator = properties.get("key.separator", "\t")
        self._headers_delimiter = properties.get("headers.delimiter", "\t")
        self._headers_key_separator = properties.get("headers.key.separator", ":")
        headers_separator = properties.get("headers.separator", ",")
        try:
            self._headers_pattern = compile_java_pattern(headers_separator)
        except re.error as error:
            raise ConsoleError("java.util.regex.PatternSyntaxException", str(error)) from error
        names = {
            "headers.delimiter": self._headers_delimiter,
            "headers.separator": headers_separator,
            "headers.key.separator": self._headers_key_separator,
            "null.marker": self.null_marker,
            "key.separator": self._key_separator,
        }
        for name, other in (
            ("headers.delimiter", "headers.separator"),
            ("headers.delimiter", "headers.key.separator"),
            ("headers.separator", "headers.key.separator"),
            ("null.marker", "key.separator"),
            ("null.marker", "headers.separator"),
            ("null.marker", "headers.delimiter"),
            ("null.marker", "headers.key.separator"),
        ):
            if names[name] == names[other]:
                raise ConsoleError(KAFKA_EXCEPTION, f"{name} and {other} may not be equal")

    @property
    def is_plain(self) -> bool:
        """Whether lines have neither keys nor headers."""
        return not self.parses_key and not self.parses_headers and self.null_marker is None

    def read(self, line: str, number: int) -> LineRecord:
        """Parse a line.

        number  the number of the line, from 1
        raises  ConsoleError for a missing separator, unless `ignore.error` is true
        """
        position = 0
        headers = key = None
        if self.parses_headers:
            delimiter = self._headers_delimiter
            headers = self._part(line, 0, delimiter, "headers delimiter", number)
            position += 0 if headers is None else len(headers) + len(delimiter)
        if self.parses_key:
            separator = self._key_separator
            key = self._part(line, position, separator, "key separator", number)
            position += 0 if key is None else len(key) + len(separator)
        value = line[position:]
        return LineRecord(
            None if key == self.null_marker else key,
            None if value == self.null_marker else value,
            []
            if headers is None or headers == self.null_marker
            else [self._header(pair, number) for pair in self._split(headers)],
        )

    def _part(self, line: str, start: int, separator: str, name: str, number: int) -> str | None:
        end = line.find(separator, start)
        if end >= 0:
            return line[start:end]
        if self._ignores_errors:
            return None
        raise ConsoleError(KAFKA_EXCEPTION, f"No {name} found on line number {number}: '{line}'")

    def _split(self, headers: str) -> list[str]:
        """Split as Java does: trailing empty words are dropped, an empty text is one word."""
        words: list[str] = []
        start = 0
        for separator in self._headers_pattern.finditer(headers):
            if separator.end() == 0:
                continue
            words.append(headers[start : separator.start()])
            start = separator.end()
        if not words:
            return [headers]
        words.append(headers[start:])
        while words and not words[-1]:
            words.pop()
        return words

    def _header(self, pair: str, number: int) -> tuple[str, bytes | None]:
        end = pair.find(self._headers_key_separator)
        if end < 0:
            if self._ignores_errors:
                return pair, None
            raise ConsoleError(
                KAFKA_EXCEPTION,
                f"No header key separator found in pair '{pair}' on line number {number}",
            )
        key, value = pair[:end], pair[end + len(self._headers_key_separator) :]
        if key == self.null_marker:
            raise ConsoleError(
                KAFKA_EXCEPTION,
                f"Header keys should not be equal to the null marker '{self.null_marker}' as they "
                "can't be null",
            )
        return key, None if value == self.null_marker else value.encode()


SIGNALS_AT_ONCE: Final = 64


@contextmanager
def interruptible(file: BinaryIO) -> Iterator[BinaryIO]:
    """Wrap a file, so that a signal handler runs at once while a read waits.

    A plain read keeps waiting when the signal arrives just before it, or in another thread.
    To be used in the main thread.
    """
    try:
        descriptor = file.fileno()
    except OSError:
        # An in-memory file: its reads never wait.
        yield file
        return
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    before = signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    try:
        yield io.BufferedReader(_InterruptibleFile(descriptor, woken))
    finally:
        signal.set_wakeup_fd(before)
        os.close(waker)
        os.close(woken)


class _InterruptibleFile(io.RawIOBase):
    """Reads a descriptor; waits for data or a signal.

    woken  a descriptor that is readable after a signal
    """

    def __init__(self, descriptor: int, woken: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._woken = woken

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        """Read the available bytes, at most the size of the buffer; 0 at the end of the file."""
        while True:
            ready, _, _ = select.select([self._descriptor, self._woken], [], [])
            if self._woken not in ready:
                content = os.read(self._descriptor, len(buffer))
                buffer[: len(content)] = content
                return len(content)
            # The signal handler runs before this call returns, and may raise.
            os.read(self._woken, SIGNALS_AT_ONCE)
