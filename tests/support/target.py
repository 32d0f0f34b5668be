"""Which broker a test speaks to: ours, or another one that shall prove the test itself right.

ODRADEK_TEST_TARGET=host:port   a broker that runs already
ODRADEK_TEST_BROKER=apache      a real Apache Kafka, started for the tests
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.apache import apache_node
from tests.support.broker_process import odradek_broker

RUNNING_VARIABLE = "ODRADEK_TEST_TARGET"
KIND_VARIABLE = "ODRADEK_TEST_BROKER"


@contextmanager
def target_broker(folder: Path, overrides: Mapping[str, str] | None = None) -> Iterator[str]:
    """The `host:port` of a broker; `overrides` are ignored by one that runs already."""
    running = os.environ.get(RUNNING_VARIABLE)
    kind = os.environ.get(KIND_VARIABLE, "odradek")
    if running:
        yield running
    elif kind == "apache":
        with apache_node(folder, overrides=overrides) as apache:
            yield apache.address
    else:
        assert kind == "odradek", f"{KIND_VARIABLE} is odradek or apache, not {kind}"
        with odradek_broker(folder, overrides=overrides) as broker:
            yield broker.address
