"""`odradek acls`, `configs` and `delegation-tokens` print what Apache Kafka's tools print.

The lines are recorded in `tools_conversation_3_9_2.txt`, by Apache's tools with Apache's broker.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.odradek.console_tools import our_tool_here
from tests.security.secured import BROKERS, Secured
from tests.security.tools_conversation import COMMAND_LINES, RECORDED, play

pytestmark = [pytest.mark.timeout(600), pytest.mark.judge]


@pytest.fixture(scope="module", params=BROKERS)
def secured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Secured]:
    """A broker with users."""
    with BROKERS[request.param](tmp_path_factory.mktemp("secured")) as broker:
        broker.add_scram_users()
        yield broker


def test_our_tools_print_the_recorded_lines(secured: Secured) -> None:
    lines = COMMAND_LINES.read_text().splitlines()
    assert play(our_tool_here, secured, lines) == RECORDED.read_text()


@pytest.mark.parametrize(("response", "remaining"), [("n\n", 2), ("", 2), ("Y\n", 1)])
def test_entries_are_removed_after_a_yes_only(
    secured: Secured, response: str, remaining: int
) -> None:
    at = ["--bootstrap-server", secured.address("PLAINTEXT"), "--topic", f"asked-{remaining}"]
    at += ["--allow-principal", "User:x", "--operation"]
    assert our_tool_here("acls", ["--add", *at, "Read", "--operation", "Write"]).exit_code == 0
    result = our_tool_here("acls", ["--remove", *at, "Read"], response)
    assert "Are you sure you want to remove ACLs: \n \t(principal=User:x, host=*" in result.output
    listed = our_tool_here("acls", [*at[:4], "--list"]).output
    assert listed.count("principal=User:x") == remaining
    assert our_tool_here("acls", ["--remove", *at[:4], "--force"]).exit_code == 0
