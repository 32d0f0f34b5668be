"""Which APIs and versions the clients of a broker have used, for its `odradek.api.report` file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary

from odradek.protocol.api_keys import ApiKey

SETTING: Final = "odradek.api.report"
ROWS_MAX: Final = 10_000
"""Further combinations are counted without client id and software."""
UNKNOWN: Final = ("", "")
"""The software of a client that has not sent ApiVersions 3 or later."""

Software = tuple[str, str]
"""Name and version."""


class ApiReport:
    """Counts requests by client id, software of the client, API and version."""

    def __init__(self, path: str) -> None:
        """path  of the file that the broker writes at its end"""
        self.path = path
        self._software: WeakKeyDictionary[Any, Software] = WeakKeyDictionary()
        self._counts: Counter[tuple[str, Software, int, int]] = Counter()

    def add_software(self, connection: object, name: str, version: str) -> None:
        """What the client of a connection says of itself."""
        self._software[connection] = (name, version)

    def add_request(
        self, connection: object, client_id: str | None, api_key: int, version: int
    ) -> None:
        """Count one request of a version that Odradek serves."""
        row = (client_id or "", self._software.get(connection, UNKNOWN), api_key, version)
        if row not in self._counts and len(self._counts) >= ROWS_MAX:
            row = ("", UNKNOWN, api_key, version)
        self._counts[row] += 1

    def rows(self) -> list[dict[str, Any]]:
        """A row for each combination, sorted."""
        return [
            {
                "client_id": client_id,
                "client_software_name": software[0],
                "client_software_version": software[1],
                "api_key": api_key,
                "api": ApiKey(api_key).name.title().replace("_", ""),
                "version": version,
                "count": count,
            }
            for (client_id, software, api_key, version), count in sorted(self._counts.items())
        ]

    def content(self) -> bytes:
        """The rows as JSON, one on a line."""
        lines = ",\n".join(json.dumps(row) for row in self.rows())
        return f"[\n{lines}\n]\n".encode()


def api_report_of(written: Mapping[str, str]) -> ApiReport | None:
    """The report of the setting, or None when it is not set; written  settings as text"""
    path = written.get(SETTING, "").strip()
    return ApiReport(path) if path else None
