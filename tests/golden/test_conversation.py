"""Our broker answers as Apache Kafka 3.9.2 did when the conversation was recorded.

Every difference is either mended or stands in differences.md with its reason; a row there that
covers nothing is stale and fails too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scripts.conversation import CHAPTERS, GOLDEN, Steps, play_chapter, read
from tests.scripts.differences import Difference, compare, read_accepted
from tests.support.target import KIND_VARIABLE, target_broker

pytestmark = pytest.mark.timeout(300)

ACCEPTED = read_accepted(Path(__file__).parent / "differences.md")
SHOWN_MAX = 200


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Steps]]:
    """The answers of a fresh broker to every chapter, asked in the order of the recording."""
    assert "ODRADEK_TEST_TARGET" not in os.environ, "the conversation needs a fresh broker"
    with target_broker(tmp_path_factory.mktemp("broker")) as address:
        yield {name: play_chapter(name, address, to_the_end=False) for name in CHAPTERS}


def differences(name: str, played: dict[str, Steps]) -> list[Difference]:
    """Of one chapter."""
    return list(compare(name, read(GOLDEN, name), played[name]))


@pytest.mark.parametrize("name", CHAPTERS)
def test_the_answers_of_a_chapter_are_those_of_apache_kafka(
    played: dict[str, Steps], name: str
) -> None:
    left = [
        one
        for one in differences(name, played)
        if not any(accepted.covers(one) for accepted in ACCEPTED)
    ]
    shown = "\n".join(str(one) for one in left[:SHOWN_MAX])
    assert not left, f"{len(left)} differences that are not listed:\n{shown}"


def test_every_listed_difference_still_exists(played: dict[str, Steps]) -> None:
    if os.environ.get(KIND_VARIABLE, "odradek") != "odradek":
        return
    found = [one for name in CHAPTERS for one in differences(name, played)]
    stale = [row for row in ACCEPTED if not any(row.covers(one) for one in found)]
    assert not stale, f"rows that cover nothing: {[row.where for row in stale]}"
