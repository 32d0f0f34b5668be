"""Everything that tests fetch or build outside of Python: `python -m tests.support.prepare`.

Idempotent and quick when nothing is missing; what it makes lies in `.tools`.
"""

from __future__ import annotations

from tests.support import apache, programs


def main() -> None:
    """Jars of Apache Kafka, client programs."""
    apache.main()
    programs.main()


if __name__ == "__main__":
    main()
