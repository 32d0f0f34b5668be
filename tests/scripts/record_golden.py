"""Records every golden file again from a real Apache Kafka: `make golden`."""

from __future__ import annotations

from tests.golden import record_configs
from tests.scripts import conversation, log_directory


def main() -> None:
    """The conversation, the data directory, the settings."""
    conversation.main([])
    log_directory.main()
    record_configs.main()


if __name__ == "__main__":
    main()
