"""Files that an operator or another file names: each is read up to a bound, and none is waited for.

A device has no end, and opening a named pipe waits for a program that writes to it.  The tables of
the package are files of it.
"""

from __future__ import annotations

import errno
import os
from functools import cache
from pathlib import Path
from stat import S_ISDIR, S_ISFIFO
from typing import BinaryIO, Final

_DESCRIPTORS: Final = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""Names of open descriptors of this process: a shell passes `<(command)` as the first of them, and
the pipe behind it has a writer."""


def open_file(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file to read.

    raises  OSError, EINVAL for a named pipe and for a name that no file can have
    """
    name = os.fspath(path)
    try:
        if name.startswith(_DESCRIPTORS):
            return open(name, "rb")
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError as error:
        # A name with a NUL, or with a lone surrogate.
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), name) from error
    mode = os.fstat(descriptor).st_mode
    if S_ISFIFO(mode) or S_ISDIR(mode):
        os.close(descriptor)
        if S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        raise OSError(errno.EINVAL, "a named pipe, not a file", name)
    return os.fdopen(descriptor, "rb")


def read_file(path: str | os.PathLike[str], bytes_max: int) -> bytes:
    """The content of a file.

    raises  OSError as `open_file`; EFBIG for one of more than `bytes_max`
    """
    with open_file(path) as file:
        content = file.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise OSError(errno.EFBIG, f"more than {bytes_max} bytes", os.fspath(path))
    return content


def system_error_text(error: BaseException) -> str:
    """What happened, without the names of Python: `PATH: No such file or directory`."""
    if isinstance(error, UnicodeError):
        return "the host is not a name that DNS can have"
    if not isinstance(error, OSError):
        return str(error) or type(error).__name__
    reason = error.strerror or str(error) or type(error).__name__
    names = [str(name) for name in (error.filename, error.filename2) if name is not None]
    return ": ".join([" -> ".join(names), reason]) if names else reason


@cache
def read_rows(module_file: str, name: str) -> list[list[str]]:
    """The rows of the table `name` beside a module, below that of its columns.

    Values are separated by tabs.
    module_file  `__file__` of the module
    """
    text = Path(module_file).with_name(name).read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines()[1:]]
