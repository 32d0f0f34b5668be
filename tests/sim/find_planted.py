"""Look for planted bugs, and say how many seeds it took.

python -m tests.sim.find_planted [NAME...]
"""

from __future__ import annotations

import sys
from typing import Final

from tests.sim.planted import BUGS
from tests.sim.planted_groups import GROUP_BUGS
from tests.sim.planted_transactions import TRANSACTION_BUGS
from tests.sim.seeds import seeds_until_found

SEEDS_MAX: Final = 500


def main() -> None:
    for name in sys.argv[1:] or [*BUGS, *TRANSACTION_BUGS, *GROUP_BUGS]:
        found = seeds_until_found(name, SEEDS_MAX)
        if found is None:
            print(f"{name}: NOT FOUND in {SEEDS_MAX} seeds", flush=True)
        else:
            print(f"{name}: {found[0]} seeds: {found[1].splitlines()[-1][:150]}", flush=True)


if __name__ == "__main__":
    main()
