"""`odradek demo idempotence` and `odradek demo eos`: their verdicts, and figures that are wrong."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from odradek.demo.eos import COMMITTED, OPEN_RECORDS, RECORDS, Seen
from odradek.demo.eos import claims_of as claims_of_copies
from odradek.demo.idempotence import Sent, SentByHand, claims_of, judged

WAIT_S = 240.0
PYTHON = [sys.executable, "-I", "-m"]
PLAIN = Sent(cuts=9, stored=2_600, duplicates=600, missing=0, out_of_order=591)
IDEMPOTENT = Sent(cuts=9, stored=2_000, duplicates=0, missing=0, out_of_order=0)
BY_HAND = SentByHand(first_offset=0, repeated_offset=0, gap_error=45, end_offset=2)
EVERYTHING = tuple(str(number) for number in range(RECORDS))
BEFORE = EVERYTHING[: COMMITTED * 100]
KILLED = Seen(EVERYTHING[: len(BEFORE) + OPEN_RECORDS], BEFORE)
ENDED = Seen((*KILLED.uncommitted, *EVERYTHING[len(BEFORE) :]), EVERYTHING)


def demo(name: str) -> list[str]:
    """The lines of a demo that passes."""
    done = subprocess.run(
        [*PYTHON, "odradek", "demo", name],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr, lines[-1]) == (0, "", "PASS"), done.stdout + done.stderr
    return lines


def test_idempotence_prints_duplicates_without_it_and_none_with_it() -> None:
    lines = demo("idempotence")
    (plain,) = (line for line in lines if "enable.idempotence=false" in line)
    (idempotent,) = (line for line in lines if "enable.idempotence=true" in line)
    assert " 0 duplicates" not in plain
    assert "2000 records stored, 0 duplicates, 0 missing, 0 out of order" in idempotent
    assert any(line.endswith("is refused: OUT_OF_ORDER_SEQUENCE_NUMBER") for line in lines)


def test_eos_prints_what_both_isolation_levels_see_of_a_killed_copier() -> None:
    lines = demo("eos")
    assert [line.split(": ")[1] for line in lines if "read_committed" in line] == [
        "read_committed sees 300 records, those of 3 commits",
        "read_committed sees 1000 records, 0 of them twice",
    ]
    assert [line.split(": ")[1] for line in lines if "read_uncommitted" in line] == [
        "read_uncommitted sees 350 records, those of the open transaction too",
        "read_uncommitted sees 1050 records, 50 of them twice",
    ]


def test_figures_as_promised_pass() -> None:
    claims = [*claims_of(PLAIN, IDEMPOTENT, BY_HAND), *claims_of_copies(KILLED, ENDED)]
    assert [claim.holds for claim in claims] == [True] * 8


@pytest.mark.parametrize(
    ("plain", "idempotent", "by_hand"),
    [
        ({"duplicates": 0}, {}, {}),
        ({"missing": 1}, {}, {}),
        ({"cuts": 0}, {}, {}),
        ({}, {"duplicates": 1}, {}),
        ({}, {"missing": 1}, {}),
        ({}, {"out_of_order": 1}, {}),
        ({}, {"cuts": 0}, {}),
        ({}, {}, {"repeated_offset": 1}),
        ({}, {}, {"end_offset": 3}),
        ({}, {}, {"gap_error": 0}),
    ],
)
def test_each_figure_of_idempotence_that_is_wrong_fails_one_claim(
    plain: dict[str, int], idempotent: dict[str, int], by_hand: dict[str, int]
) -> None:
    claims = claims_of(
        replace(PLAIN, **plain), replace(IDEMPOTENT, **idempotent), replace(BY_HAND, **by_hand)
    )
    assert [claim.holds for claim in claims].count(False) == 1


@pytest.mark.parametrize(
    ("killed", "ended"),
    [
        (replace(KILLED, committed=KILLED.uncommitted), ENDED),
        (replace(KILLED, uncommitted=KILLED.committed), ENDED),
        (KILLED, replace(ENDED, committed=ENDED.uncommitted)),
        (KILLED, replace(ENDED, committed=EVERYTHING[1:])),
        (KILLED, replace(ENDED, committed=tuple(reversed(EVERYTHING)))),
        (KILLED, replace(ENDED, uncommitted=EVERYTHING)),
    ],
)
def test_each_list_of_copies_that_is_wrong_fails_one_claim(killed: Seen, ended: Seen) -> None:
    assert [claim.holds for claim in claims_of_copies(killed, ended)].count(False) == 1


def test_stored_values_are_compared_with_those_that_were_sent() -> None:
    stored = ["0", "1", "2", "1", "2", "4"]
    assert judged(stored, 5, 3) == Sent(3, 6, duplicates=2, missing=1, out_of_order=1)
