"""No step of a scrape has more than a bounded number of samples, however many there are.

The clock is not asked: what a step may take is its number of lines, a microsecond or ten each.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest

from odradek.broker.group.offsets import OffsetAndMetadata
from odradek.broker.monitoring.exposition import ROWS_PER_STEP, Exposition, gauge, label_text
from odradek.broker.monitoring.group_metrics import write_groups
from odradek.broker.monitoring.lag_times import LagTimes
from odradek.broker.monitoring.pages import LINES_PER_STEP, as_json
from odradek.broker.monitoring.scrape import TopicTotals, write_topics
from odradek.runtime.metrics import BrokerMetrics

COUNT = 5_003
HEADS = 20
"""Lines of a step besides the samples of one family."""


def longest_step(work: Coroutine[Any, Any, Any], count: Callable[[], int]) -> int:
    """What `count` rises by in one step at most."""
    before = longest = 0
    is_ended = False
    while not is_ended:
        try:
            work.send(None)
        except StopIteration:
            is_ended = True
        longest = max(longest, count() - before)
        before = count()
    return longest


def topics(exposition: Exposition) -> Coroutine[Any, Any, None]:
    """Writes the metrics of COUNT topics, each with one partition."""
    zeros = (0, 0)  # requests and errors
    sources: Any = SimpleNamespace(
        services=SimpleNamespace(metrics=BrokerMetrics()),
        requests=SimpleNamespace(times=SimpleNamespace(totals=lambda key: zeros)),
    )
    return write_topics(
        exposition, sources, {f"topic-{number}": TopicTotals() for number in range(COUNT)}
    )


def groups_of(committed: int, groups: int) -> Callable[[Exposition], Coroutine[Any, Any, None]]:
    """Groups that have committed offsets of so many partitions each."""
    commit = cast("OffsetAndMetadata", SimpleNamespace(offset=3))

    def write(exposition: Exposition) -> Coroutine[Any, Any, None]:
        rows = {
            number: SimpleNamespace(
                group_id=f"group-{number}",
                body=None,
                offsets=SimpleNamespace(
                    committed={("orders", index): commit for index in range(committed)}
                ),
            )
            for number in range(groups)
        }
        services: Any = SimpleNamespace(
            groups=SimpleNamespace(shards={0: SimpleNamespace(groups=rows)}),
            partitions=SimpleNamespace(get=lambda topic, index: SimpleNamespace(high_watermark=9)),
            clock=SimpleNamespace(monotonic_ms=lambda: 1),
        )
        return write_groups(exposition, services, LagTimes())

    return write


@pytest.mark.parametrize(
    "write",
    [topics, groups_of(COUNT, 1), groups_of(0, COUNT), groups_of(1, COUNT)],
    ids=["topics", "offsets of one group", "empty groups", "groups"],
)
def test_text_is_written_in_bounded_steps(
    write: Callable[[Exposition], Coroutine[Any, Any, None]],
) -> None:
    exposition = Exposition(is_open_metrics=False)

    def lines() -> int:
        return sum(part.count(b"\n") for part in exposition.encode())

    assert longest_step(write(exposition), lines) <= ROWS_PER_STEP + HEADS
    assert lines() > COUNT


def test_json_is_written_in_bounded_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    exposition = Exposition(is_open_metrics=False)
    family = gauge("depth", "A number.")
    for start in range(0, COUNT, 700):
        rows = range(start, min(COUNT, start + 700))
        exposition.rows(family, [(label_text({"name": f'q"{number}'}), number) for number in rows])
    read: list[object] = []
    dumps = json.dumps

    def counted(value: object, **options: Any) -> str:
        read.append(value)
        return dumps(value, **options)

    monkeypatch.setattr("odradek.broker.monitoring.pages.json.dumps", counted)
    content: list[bytes] = []

    async def convert() -> None:
        content.extend(await as_json(exposition.encode()))

    assert longest_step(convert(), lambda: len(read)) <= LINES_PER_STEP
    assert json.loads(b"".join(content)) == {
        "depth": [{"labels": {"name": f'q"{number}'}, "value": number} for number in range(COUNT)]
    }
    assert max(map(len, content)) < 60 * ROWS_PER_STEP
