"""Our broker responds as Apache Kafka did when the conversation was recorded.

3.9.2 decides; of 4.3.0 there are recorded the APIs that only it serves, and those that it serves
otherwise.  Every difference is either repaired or listed in differences.md or differences_4_3.md
with its reason; a row there that covers nothing is stale and fails too.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.scripts.conversation import (
    ACTS,
    ACTS_4_3,
    GOLDEN,
    GOLDEN_4_3,
    Act,
    Steps,
    play_chapter,
    read,
)
from tests.scripts.differences import Difference, compare, read_accepted
from tests.support.target import KIND_VARIABLE, target_broker

HERE = Path(__file__).parent
ACCEPTED = read_accepted(HERE / "differences.md")
ACCEPTED_4_3 = read_accepted(HERE / "differences_4_3.md")
CHAPTERS = [name for act in ACTS.values() for name in act.chapters]
CHAPTERS_4_3 = [name for act in ACTS_4_3.values() for name in act.chapters]
SHOWN_MAX = 200
AT_ONCE = 3
"""Acts that are played at the same time: they mostly wait for sessions."""
IS_OURS = os.environ.get(KIND_VARIABLE, "odradek") == "odradek"

Played = dict[str, Steps]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """The responses to every chapter; each act has a fresh broker."""
    assert "ODRADEK_TEST_TARGET" not in os.environ, "the conversation needs a fresh broker"
    acts = ACTS | ACTS_4_3 if IS_OURS else ACTS

    def play(name: str, act: Act) -> Played:
        with target_broker(tmp_path_factory.mktemp(name), act.settings) as address:
            return {each: play_chapter(each, address, to_the_end=False) for each in act.chapters}

    responses: Played = {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for steps in pool.map(play, acts.keys(), acts.values()):
            responses |= steps
    return responses


def differences(name: str, played: Played) -> list[Difference]:
    """Of one chapter and 3.9.2."""
    return list(compare(name, read(GOLDEN, name), played[name]))


def differences_4_3(name: str, played: Played) -> list[Difference]:
    """Of one chapter and 4.3.0: of what it was asked."""
    recorded = read(GOLDEN_4_3, name)
    responses = {step: response for step, response in played[name].items() if step in recorded}
    return list(compare(name, recorded, responses))


def tell(left: list[Difference]) -> str:
    """Those that are not listed."""
    shown = "\n".join(str(difference) for difference in left[:SHOWN_MAX])
    return f"{len(left)} differences that are not listed:\n{shown}"


@pytest.mark.parametrize("name", CHAPTERS)
def test_responses_of_a_chapter_are_those_of_apache_kafka(played: Played, name: str) -> None:
    all_differences = differences(name, played)
    left = [
        difference
        for difference in all_differences
        if not any(row.covers(difference) for row in ACCEPTED)
    ]
    assert not left, tell(left)


@pytest.mark.parametrize("name", CHAPTERS_4_3)
def test_responses_of_a_chapter_are_those_of_apache_kafka_4_3(played: Played, name: str) -> None:
    if not IS_OURS:
        return
    all_differences = differences_4_3(name, played)
    left = [
        difference
        for difference in all_differences
        if not any(row.covers(difference) for row in ACCEPTED_4_3)
    ]
    assert not left, tell(left)


def test_every_listed_difference_still_exists(played: Played) -> None:
    if not IS_OURS:
        return
    all_differences = [difference for name in CHAPTERS for difference in differences(name, played)]
    all_differences_4_3 = [
        difference for name in CHAPTERS_4_3 for difference in differences_4_3(name, played)
    ]
    stale = [
        row.where
        for row in ACCEPTED
        if not any(row.covers(difference) for difference in all_differences)
    ]
    stale += [
        row.where
        for row in ACCEPTED_4_3
        if not any(row.covers(difference) for difference in all_differences_4_3)
    ]
    assert not stale, f"rows that cover nothing: {stale}"
