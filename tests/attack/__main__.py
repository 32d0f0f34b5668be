"""The campaign: every attack on a broker of its own, with an honest client beside it.

    python -m tests.attack [NAME...] [--seed N] [--scale S] [--list]

Appends a line to `ledger.jsonl` for each: when, commit, attack, seed, figures, verdict.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tests.attack import attacks_damage, attacks_floods, attacks_requests
from tests.attack.scene import ATTACKS, Attack, Bars, perform
from tests.support.ledger import append, commit

LEDGER = Path(__file__).with_name("ledger.jsonl")
MODULES = (attacks_damage, attacks_floods, attacks_requests)


def run(attack: Attack, *, seed: int, scale: float) -> bool:
    """Perform one, tell and note what came of it; whether it did no harm."""
    figures, harm = perform(attack, seed=seed, bars=Bars(), scale=scale)
    line = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": commit(),
        "attack": attack.name,
        "finding": attack.finding,
        "seed": seed,
        "scale": scale,
        "verdict": "withstood" if harm is None else harm.splitlines()[0][:300],
        "figures": figures,
    }
    append(LEDGER, line)
    return harm is None


def main() -> int:
    """Run what is named, or all; 1 when one has done harm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*ATTACKS, []], metavar="NAME")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--list", action="store_true", help="name the attacks")
    options = parser.parse_args()
    if options.list:
        for attack in ATTACKS.values():
            print(
                f"{attack.finding:2}  {attack.name:32} {(attack.run.__doc__ or '').splitlines()[0]}"
            )
        return 0
    chosen = [ATTACKS[name] for name in options.names or sorted(ATTACKS)]
    withstood = [run(attack, seed=options.seed, scale=options.scale) for attack in chosen]
    print(f"{sum(withstood)} of {len(withstood)} attacks withstood")
    return 0 if all(withstood) else 1


if __name__ == "__main__":
    sys.exit(main())
