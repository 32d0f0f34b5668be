"""CRC-32C (Castagnoli), the checksum of record batches; 20 to 28 GB/s from 16 KiB on.

The package `crc32c` looks up its own version and builds a command line when it is imported, which
takes 20 ms of a start that shall stay below 100 ms.  Its extension module alone takes half a
millisecond and is the same function.
"""

from __future__ import annotations

from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Protocol, cast


class _Checksum(Protocol):
    def __call__(self, data: bytes | bytearray | memoryview, value: int = 0, /) -> int:
        """value  the checksum of what comes before"""


def _load_extension() -> _Checksum | None:
    package = find_spec("crc32c")
    if package is None:
        return None
    spec = PathFinder.find_spec("_crc32c", package.submodule_search_locations)
    if spec is None or spec.loader is None:
        return None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return cast(_Checksum, module.crc32c)


def _load_package() -> _Checksum:
    import crc32c as package

    return package.crc32c


crc32c: _Checksum = _load_extension() or _load_package()
"""The checksum of a buffer as an unsigned number of 32 bits."""
