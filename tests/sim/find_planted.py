"""Look for planted bugs, and say how many seeds it took.

python -m tests.sim.find_planted [NAME...]
"""

from __future__ import annotations

import sys
from typing import Final

from tests.sim.plan import KINDS_OF_CLIENTS
from tests.sim.planted import BUGS
from tests.sim.planted_groups import GROUP_BUGS
from tests.sim.planted_transactions import TRANSACTION_BUGS
from tests.sim.seeds import seeds_until_found

SEEDS_MAX: Final = 500
COORDINATOR_SEEDS_MAX: Final = SEEDS_MAX * KINDS_OF_CLIENTS
"""For bugs of transactions and groups: only the seeds that have such clients are run."""


def seeds_max(name: str) -> int:
    """How many seeds are looked at for a bug."""
    return SEEDS_MAX if name in BUGS else COORDINATOR_SEEDS_MAX


def main() -> None:
    for name in sys.argv[1:] or [*BUGS, *TRANSACTION_BUGS, *GROUP_BUGS]:
        seeds = seeds_until_found(name, seeds_max(name))
        if seeds is None:
            print(f"{name}: NOT FOUND in {seeds_max(name)} seeds", flush=True)
        else:
            print(f"{name}: {seeds[0]} seeds: {seeds[1].splitlines()[-1][:150]}", flush=True)


if __name__ == "__main__":
    main()
