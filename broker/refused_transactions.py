"""Logs each transactional id that is refused, once: transactions are not supported."""

from __future__ import annotations

import logging
from typing import Final

REFUSAL: Final = "Transactions are not supported by this broker."

IDS_MAX: Final = 1_000
"""Ids that are remembered; further ids are not logged."""
SHOWN: Final = 100
"""Characters of an id that are compared and logged."""
LINES_MAX: Final = 20
"""Lines in one period; a further id is logged when it is refused again in a later period."""
PERIOD_MS: Final = 10_000

logger = logging.getLogger("odradek.transactions")


class RefusedTransactions:
    """Remembers the transactional ids that were logged."""

    def __init__(self) -> None:
        self._logged: dict[str, None] = {}
        self._period_began_ms = 0
        self._lines = 0

    def log(
        self, transactional_id: str, *, client_id: str | None, client_host: str, monotonic_ms: int
    ) -> None:
        """Log a refusal, unless the id was logged before or the period has `LINES_MAX` lines."""
        shown = transactional_id[:SHOWN]
        if shown in self._logged or len(self._logged) >= IDS_MAX:
            return
        if monotonic_ms - self._period_began_ms >= PERIOD_MS:
            self._period_began_ms = monotonic_ms
            self._lines = 0
        if self._lines >= LINES_MAX:
            return
        self._lines += 1
        self._logged[shown] = None
        logger.warning(
            "transactional id %s of client %s at %s is refused: %s%s",
            shown,
            client_id,
            client_host,
            REFUSAL,
            " Further ids are not logged." if len(self._logged) == IDS_MAX else "",
        )
