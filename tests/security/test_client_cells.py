"""Clients of others log in, or are refused, with the outcomes that they have with Apache Kafka.

Each library here is tried in two cells that are served and in one of each way to be refused;
`make campaign-logins` tries all libraries in all cells, on both brokers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.security.client_cells import (
    CELLS,
    DIFFERENCES,
    LACKING,
    RECORDED,
    CellBroker,
    cell_broker,
    outcomes,
)
from tests.security.client_logins import LIBRARIES, SERVED
from tests.security.secured import secured_apache, secured_odradek

pytestmark = [pytest.mark.timeout(1_800), pytest.mark.client]

SHORT: Final = (
    "TLS mutual",
    "SCRAM-SHA-512",
    "SCRAM-SHA-256, wrong password",
    "certificate of another host",
    "certificate of a revoked authority",
    "SSL to PLAINTEXT",
)
SHORT_LIBRARIES: Final = (
    "java-3.9.2",
    "confluent-kafka",
    "kcat",
    "aiokafka",
    "franz-go",
    "kafkajs",
)


def kinds(broker: CellBroker, cells: tuple[str, ...], libraries: tuple[str, ...]) -> dict[str, str]:
    """The kind of each outcome; a cell that shall be served is, and no other."""
    results = {
        (library, cell): outcome
        for library, row in outcomes(broker, cells, libraries).items()
        for cell, outcome in row.items()
    }
    wrong = {
        key: outcome
        for key, outcome in results.items()
        if (outcome.kind == SERVED) != CELLS[key[1]].is_served
    }
    assert not wrong
    return {f"{library}: {cell}": outcome.kind for (library, cell), outcome in results.items()}


def recorded(cells: tuple[str, ...], libraries: tuple[str, ...]) -> dict[str, str]:
    """The kinds with Apache Kafka."""
    table = json.loads(RECORDED.read_text())
    return {
        f"{library}: {cell}": table[library][cell]
        for library in libraries
        for cell in cells
        if cell not in LACKING.get(library, ())
    }


def deviations() -> dict[str, str]:
    return {f"{library}: {cell}": kind for (library, cell), kind in DIFFERENCES.items()}


def test_clients_have_the_outcomes_of_apache_kafka(tmp_path: Path) -> None:
    with cell_broker(secured_odradek, tmp_path) as broker:
        assert kinds(broker, SHORT, SHORT_LIBRARIES) == recorded(SHORT, SHORT_LIBRARIES)


@pytest.mark.slow
@pytest.mark.parametrize("start", [secured_odradek, secured_apache])
def test_every_client_has_them_in_every_cell(tmp_path: Path, start: Callable[..., object]) -> None:
    expected = recorded(tuple(CELLS), tuple(LIBRARIES))
    if start is secured_odradek:
        expected |= deviations()
    with cell_broker(start, tmp_path) as broker:  # type: ignore[arg-type]
        assert kinds(broker, tuple(CELLS), tuple(LIBRARIES)) == expected
