"""A sample of the cuts, others in each run; `make campaign-cuts` does them all."""

from __future__ import annotations

import random
import secrets
from typing import Final

import pytest

from tests.cuts.campaign import PROTOCOLS, failure_of
from tests.cuts.planted import BUGS, FOUND_BY
from tests.cuts.variants import VARIANTS

CUTS_OF_A_PROTOCOL: Final = 8
SEEDS: Final = 3
"""Those of which the campaign was run whole."""
BUGS_AT_ONCE: Final = 3
SEEDS_FOR_A_BUG: Final = 6


@pytest.mark.parametrize("name", PROTOCOLS)
def test_cut_at_any_operation_breaks_no_promise(name: str) -> None:
    drawn_by = secrets.randbelow(1 << 32)
    rng = random.Random(drawn_by)
    seed = rng.randrange(SEEDS)
    count = PROTOCOLS[name](seed, ()).recorder.count
    assert count > 10, "the protocol changes files"
    cut_numbers = rng.sample(range(count), min(count, CUTS_OF_A_PROTOCOL))
    played = PROTOCOLS[name](seed, cut_numbers)
    assert [cut.number for cut in played.recorder.cuts] == sorted(cut_numbers)
    for cut in played.recorder.cuts:
        for variant in rng.sample(list(VARIANTS), 3):
            failure = failure_of(played, cut, variant, seed, is_thorough=rng.random() < 0.3)
            assert not failure, f"drawn by {drawn_by}: {failure}"


def test_every_protocol_has_a_planted_bug() -> None:
    assert set(FOUND_BY) == set(BUGS)
    assert set(FOUND_BY.values()) == set(PROTOCOLS)


def first_failure(name: str) -> str:
    """What the cuts of the protocol say of a bug that is planted; "" when they do not find it."""
    for seed in range(SEEDS_FOR_A_BUG):
        played = PROTOCOLS[FOUND_BY[name]](seed, range(1 << 30))
        cuts = list(played.recorder.cuts)
        random.Random(seed).shuffle(cuts)
        for cut in cuts:
            for variant in VARIANTS:
                failure = failure_of(played, cut, variant, seed, is_thorough=False)
                if failure:
                    return failure
    return ""


def test_planted_bugs_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = random.Random(secrets.randbelow(1 << 32)).sample(sorted(BUGS), BUGS_AT_ONCE)
    for name in chosen:
        with monkeypatch.context() as patch:
            BUGS[name](patch)
            assert first_failure(name), name
