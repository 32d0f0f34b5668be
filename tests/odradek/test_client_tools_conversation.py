"""The tools that measure and verify clients print the lines of Apache Kafka's tools.

The lines are recorded in `client_tools_conversation_3_9_2.txt`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.odradek.client_tools_conversation import RECORDED, play
from tests.odradek.console_tools import our_tool_here
from tests.support.broker_process import odradek_broker

pytestmark = pytest.mark.client


@pytest.fixture(scope="module")
def our_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of our broker."""
    overrides = {"group.initial.rebalance.delay.ms": "0"}
    with odradek_broker(tmp_path_factory.mktemp("odradek"), overrides=overrides) as broker:
        yield broker.address


def test_our_tools_print_the_same_as_apaches(our_broker: str) -> None:
    output = play(our_tool_here, our_broker, "zz0zz")
    assert output.splitlines() == RECORDED.read_text("utf-8").splitlines()
