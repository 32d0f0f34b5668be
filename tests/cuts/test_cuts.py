"""A sample of the cuts, others in each run; `make campaign-cuts` does them all."""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator
from itertools import chain, product, zip_longest
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


def failures(name: str, seed: int) -> Iterator[str]:
    """Cut a protocol everywhere in every way, by chance: which promise is broken, "" for none."""
    try:
        played = PROTOCOLS[name](seed, range(1 << 30))
    except AssertionError as failure:
        # Some bugs break the protocol before anything is cut.
        yield f"seed {seed}: {failure}"
        return
    attempts = [*product(played.recorder.cuts, VARIANTS)]
    random.Random(seed).shuffle(attempts)
    for cut, variant in attempts:
        yield failure_of(played, cut, variant, seed, is_thorough=False)


def first_failure(name: str) -> str:
    """What the cuts of the protocol say of a bug that is planted; "" when they do not find it.

    The seeds take turns: what breaks nothing in one breaks much in the next.
    """
    seeds = [failures(FOUND_BY[name], seed) for seed in range(SEEDS_FOR_A_BUG)]
    return next(filter(None, chain.from_iterable(zip_longest(*seeds, fillvalue=""))), "")


def test_planted_bugs_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = random.Random(secrets.randbelow(1 << 32)).sample(sorted(BUGS), BUGS_AT_ONCE)
    for name in chosen:
        with monkeypatch.context() as patch:
            BUGS[name](patch)
            assert first_failure(name), name
