"""Every row, in the order of the table."""

from __future__ import annotations

from typing import Final

from bench.rows import compaction, footprint, groups, requests, starting, throughput, transactions

ROWS: Final = (
    *throughput.ROWS,
    *requests.ROWS,
    *compaction.ROWS,
    *groups.ROWS,
    *transactions.ROWS,
    *starting.ROWS,
    *footprint.ROWS,
)
BY_KEY: Final = {row.key: row for row in ROWS}
