"""The quick part of the campaign: attacks that take seconds, with bars that any machine holds."""

from __future__ import annotations

import pytest

from tests.attack import attacks_damage, attacks_floods, attacks_requests
from tests.attack.scene import ATTACKS, RELAXED, perform

SEED = 1
SCALE = 0.05
MODULES = (attacks_damage, attacks_floods, attacks_requests)
QUICK = [name for name, attack in ATTACKS.items() if attack.is_quick]


def test_every_finding_of_the_ledger_has_an_attack() -> None:
    assert {attack.finding for attack in ATTACKS.values()} >= set(range(1, 13))


@pytest.mark.parametrize("name", QUICK)
def test_broker_serves_and_stays_within_bounds_during_an_attack(name: str) -> None:
    figures, harm = perform(ATTACKS[name], seed=SEED, bars=RELAXED, scale=SCALE)
    assert harm is None, figures
