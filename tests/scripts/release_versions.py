"""Records what releases of Kafka serve: `python -m tests.scripts.release_versions`.

For each release one file in tests/golden/releases: the ranges and features of its ApiVersions
response, and what it does with versions that Odradek serves and the release does not: "closed", or
the error code of its response.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, Final

from odradek.broker.handlers.shared.table import HANDLERS
from odradek.protocol.api_keys import ApiKey, messages_of
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.schema import (
    BOOL,
    BYTES,
    INT8,
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    UUID,
    ZERO_UUID,
    ArrayOf,
    schema_of,
)
from tests.support.apache import ApacheBroker, apache_node
from tests.support.apache_kraft import apache_kraft_node
from tests.support.tool_cache import PROJECT
from tests.support.wire import Closed, Wire

FOLDER: Final = PROJECT / "tests" / "golden" / "releases"
START: Final[dict[str, Callable[[Path], AbstractContextManager[ApacheBroker]]]] = {
    "2.8.2": partial(apache_node, version="2.8.2"),
    "3.9.2": apache_node,
    "4.3.0": apache_kraft_node,
}
ASKED_VERSION: Final = 3
"""Of ApiVersions; the newest one that all of them serve."""


def api_versions(address: str) -> Any:
    """The response to ApiVersions."""
    with Wire(address) as wire:
        request = ApiVersionsRequest(client_software_name="wire", client_software_version="1")
        return wire.call(request, ASKED_VERSION)


def ranges(response: Any) -> dict[str, list[int]]:
    """API -> lowest and highest version."""
    rows = sorted(response.api_keys, key=lambda row: row.api_key)
    return {ApiKey(row.api_key).name: [row.min_version, row.max_version] for row in rows}


def features(response: Any) -> dict[str, list[int]]:
    """The finalized levels of an ApiVersions response, lowest and highest, by name."""
    return {
        row.name: [row.min_version_level, row.max_version_level]
        for row in sorted(response.finalized_features, key=lambda row: row.name)
    }


def response_to(address: str, key: int, version: int) -> str:
    """What a broker does with an empty request of a version."""
    request_class: Any = messages_of(ApiKey(key))[0]
    with Wire(address) as wire:
        try:
            return str(wire.call(empty(request_class), version))
        except Closed:
            return "closed"


def empty(cls: type) -> Any:
    """A request with zeroes, empty texts and empty arrays."""
    zeroes: dict[Any, Any] = {
        **dict.fromkeys((INT8, INT16, INT32, INT64), 0),
        BOOL: False,
        STRING: "",
        BYTES: b"",
        RECORDS: b"",
        UUID: ZERO_UUID,
    }

    def value(kind: Any) -> Any:
        if isinstance(kind, ArrayOf):
            return []
        return zeroes[kind] if kind in zeroes else empty(kind)

    values = {each.name: value(each.type) for each in schema_of(cls).fields}
    return cls(**values)


def unserved(served: dict[str, list[int]]) -> list[tuple[int, int]]:
    """(API key, version) of what Odradek serves and a release does not."""
    versions = []
    for api in HANDLERS:
        if api.key == ApiKey.API_VERSIONS:
            continue  # A response of version 0, by all releases (KIP-511).
        lowest, highest = served.get(ApiKey(api.key).name, (0, -1))
        declared = schema_of(messages_of(ApiKey(api.key))[0]).versions
        versions += [
            (api.key, version)
            for version in range(api.min_version, api.max_version + 1)
            if not lowest <= version <= highest and version in declared
        ]
    return versions


def record(address: str) -> dict[str, Any]:
    """All of one release."""
    response = api_versions(address)
    served = ranges(response)
    return {
        "api_versions": served,
        "features": features(response),
        "not_served": {
            f"{ApiKey(key).name} v{version}": response_to(address, key, version)
            for key, version in unserved(served)
        },
    }


def read(release: str) -> Any:
    """What was recorded."""
    return json.loads((FOLDER / f"{release}.json").read_text())


def main() -> None:
    """Record all releases."""
    FOLDER.mkdir(exist_ok=True)
    for release, start in START.items():
        with tempfile.TemporaryDirectory() as folder, start(Path(folder)) as broker:
            tables = record(broker.address)
        lines = [
            f"{json.dumps(part)}: {{\n"
            + ",\n".join(
                f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in content.items()
            )
            + "\n}"
            for part, content in tables.items()
        ]
        (FOLDER / f"{release}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
