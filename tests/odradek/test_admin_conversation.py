"""The tools for applications, client metrics and quorums print what those of Apache Kafka print.

The lines are recorded in `admin_conversation_3_9_2.txt`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.odradek.admin_conversation import RECORDED, Scene, play
from tests.odradek.console_tools import our_tool_here
from tests.support.apache_kraft import apache_kraft_node
from tests.support.broker_process import odradek_broker
from tests.support.compacted import wait_until

pytestmark = pytest.mark.client


def test_our_tools_print_the_same_as_apaches(tmp_path: Path) -> None:
    with odradek_broker(tmp_path, overrides={"group.initial.rebalance.delay.ms": "0"}) as broker:
        scene = Scene(broker.address, "zz0zz", tmp_path)
        scene.build()
        try:
            output = play(our_tool_here, scene)
        finally:
            scene.close()
    assert output.splitlines() == RECORDED.read_text("utf-8").splitlines()


def test_subscriptions_of_a_kraft_cluster_are_set_listed_described_and_deleted(
    tmp_path: Path,
) -> None:
    with apache_kraft_node(tmp_path, version="3.9.2") as broker:

        def outcome(*words: str) -> tuple[int, str]:
            result = our_tool_here("client-metrics", ["--bootstrap-server", broker.address, *words])
            assert result.errors == ""
            return result.exit_code, result.output

        configs = ("--interval", "5000", "--metrics", "org.a,org.b", "--match", "client_id=x")
        changed = "client metrics config for s."
        assert outcome("--alter", "--name", "s", *configs) == (0, f"Altered {changed}\n")
        wait_until("it is listed", lambda: outcome("--list") == (0, "s\n"))
        described = "Client metrics configs for s are:\n  interval.ms=5000\n"
        described += "  match=client_id=x\n  metrics=org.a,org.b\n"
        assert outcome("--describe") == (0, described)
        code, reason = outcome("--alter", "--name", "s", "--interval", "1")
        assert code == 1
        assert reason.startswith("Error while executing client metrics command : Invalid value 1 ")
        assert outcome("--alter", "--name", "s", "--match", "")[0] == 0
        wait_until(
            "the match is deleted",
            lambda: "client_id" not in outcome("--describe", "--name", "s")[1],
        )
        assert outcome("--delete", "--name", "s") == (0, f"Deleted {changed}\n")
        wait_until("none is listed", lambda: outcome("--list") == (0, "\n"))
        words = ["--bootstrap-server", broker.address, "describe", "--status"]
        status = our_tool_here("metadata-quorum", words)
        assert re.search(r"^LeaderId: +0$", status.output, re.MULTILINE)
