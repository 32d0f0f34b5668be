"""`odradek top`: brokers, rates, under-replicated partitions and lag, on a page that refreshes.

On a terminal `q` ends it and `s` takes the next order of brokers.  With `--once`, and where stdout
is not a terminal, it prints the page once, after two samples.
Exit codes: 0 success; 1 no broker can be reached; 2 an invalid command line; 130 after Ctrl-C.
Kafka has no such tool.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.protocol.messages.list_offsets import LATEST_TIMESTAMP
from odradek.protocol.topic_partition import TopicPartition
from odradek.tools.client import Client
from odradek.tools.cluster_status.render import partition_names, size_text
from odradek.tools.consumer_groups.group_offsets import committed_offsets_of, lag_of
from odradek.tools.consumer_groups.queries import list_groups
from odradek.tools.errors import KafkaError, ToolError
from odradek.tools.options import CLIENT_FLAGS, Options, positive_number, read_flags
from odradek.tools.partition_offsets import list_offsets
from odradek.tools.run_command import run_with_client
from odradek.tools.steering.cluster_queries import (
    BrokerDisks,
    PartitionStatus,
    partition_statuses,
    read_disks,
)
from odradek.tools.tables import aligned, one_line

if TYPE_CHECKING:
    import curses

WHAT_IT_DOES: Final = "This tool shows brokers, rates and lag of a cluster, and refreshes them."
INTERVAL_MS: Final = 2_000
RESPONSE_TIMEOUT_MS: Final = 5_000
KEY_POLL_MS: Final = 100
HELP_LINE: Final = "q: quit   s: sort brokers by {}"
FLAGS: Final = (*CLIENT_FLAGS, *read_flags("top"))


def main(arguments: Sequence[str]) -> int:
    return run_with_client(arguments, WHAT_IT_DOES, _act, FLAGS)


def _act(client: Client, options: Options) -> None:
    interval_s = positive_number(options, "interval-ms", INTERVAL_MS) / 1000
    client.set_timeout(RESPONSE_TIMEOUT_MS)
    first = take_sample(client)
    if options.has("once") or not is_terminal():
        time.sleep(interval_s)
        for line in page(take_sample(client), first):
            print(line)
        return
    import curses

    samples = Samples(client, first, interval_s)
    samples.start()
    try:
        curses.wrapper(show, samples)
    finally:
        samples.end()


def is_terminal() -> bool:
    """Whether stdout is a terminal that a page can be drawn on."""
    if not sys.stdout.isatty() or not os.environ.get("TERM"):
        return False
    import curses

    try:
        curses.setupterm()
    except curses.error:
        return False
    return bool(curses.tigetstr("cup"))


def take_sample(client: Client) -> TopSample:
    """Read the state of a cluster; what a single broker or coordinator withholds is left out.

    raises  ClientError when no broker responds
    """
    metadata = client.metadata()
    at_s = time.monotonic()
    partitions = partition_statuses(metadata)
    problems: list[str] = []
    ends: dict[TopicPartition, int] = {}
    disks: dict[int, BrokerDisks] = {}
    for broker in sorted(metadata.brokers, key=lambda row: row.node_id):
        led = [key for key, status in partitions.items() if status.leader == broker.node_id]
        try:
            ends |= list_offsets(client, led, LATEST_TIMESTAMP) if led else {}
            disks[broker.node_id] = read_disks(client, broker)
        except ToolError as error:
            # The next request must not read the response of this one.
            client.close()
            problems.append(f"broker {broker.node_id}: {error}")
    lags: dict[str, int | None] | None = None
    try:
        lags = read_lags(client, ends)
    except ToolError as error:
        client.close()
        problems.append(f"groups: {error}")
    return TopSample(
        at_s,
        metadata.cluster_id or "unknown",
        metadata.controller_id,
        {broker.node_id: f"{broker.host}:{broker.port}" for broker in metadata.brokers},
        partitions,
        ends,
        disks,
        lags,
        tuple(problems),
    )


def read_lags(client: Client, ends: Mapping[TopicPartition, int]) -> dict[str, int | None]:
    """The lag of each group; None where its coordinator does not say.

    raises  ToolError
    """
    names = [group.group_id for group in list_groups(client)]
    lags: dict[str, int | None] = {}
    for group, offsets in committed_offsets_of(client, names).items() if names else ():
        lags[group] = None if isinstance(offsets, KafkaError) else lag_of(offsets, ends)
    return lags


class Samples(threading.Thread):
    """Takes samples beside the page, so that a broker that does not respond holds up no key.

    Only this thread uses the client.
    """

    def __init__(self, client: Client, first: TopSample, interval_s: float) -> None:
        super().__init__(name="samples", daemon=True)
        self._client = client
        self._interval_s = interval_s
        self._ended = threading.Event()
        self.latest: tuple[TopSample, TopSample | None, str | None] = (first, None, None)
        """(the last sample, the sample before it, what keeps the next one away)."""
        self.failure: Exception | None = None
        """An error that no broker causes."""

    def run(self) -> None:
        while not self._ended.wait(self._interval_s):
            now, before, _ = self.latest
            try:
                self.latest = (take_sample(self._client), now, None)
            except ToolError as error:
                self._client.close()
                self.latest = (now, before, str(error))
            except Exception as error:  # noqa: BLE001 - the page raises it
                self.failure = error
                return

    def end(self) -> None:
        """Take no more samples; one that is under way is given up."""
        self._ended.set()


def show(screen: curses.window, samples: Samples) -> None:
    """Draw the page until `q` is pressed."""
    import curses

    curses.use_default_colors()
    with suppress(curses.error):  # A terminal may have no invisible cursor.
        curses.curs_set(0)
    screen.timeout(KEY_POLL_MS)
    sort, drawn = 0, None
    while True:
        if samples.failure is not None:
            raise samples.failure
        state = (samples.latest, sort, screen.getmaxyx())
        if state != drawn:
            drawn = state
            draw(screen, samples, SORTS[sort])
        key = screen.getch()
        if key == ord("q"):
            return
        if key == ord("s"):
            sort = (sort + 1) % len(SORTS)


def draw(screen: curses.window, samples: Samples, sort: str) -> None:
    """Draw the lines that the terminal has space for."""
    import curses

    now, before, error = samples.latest
    height, width = screen.getmaxyx()
    lines = [HELP_LINE.format(sort), *page(now, before, sort=sort, error=error)]
    screen.erase()
    for number, line in enumerate(lines[:height]):
        is_head = line.startswith(("BROKER", "GROUP "))
        try:
            screen.addnstr(number, 0, line, width - 1, curses.A_REVERSE if is_head else 0)
        except curses.error:
            break  # The window has become smaller.
    screen.refresh()


SORTS: Final = ("id", "bytes", "records", "leaders")
"""The orders of brokers, of which a key takes the next one."""
GROUPS_MAX: Final = 20
COLUMNS: Final = (
    *("BROKER", "ADDRESS", "LEADERS", "REPLICAS", "UNDER-REPLICATED", "RECORDS IN", "BYTES IN"),
    *("LOGS", "FREE"),
)


class TopSample(NamedTuple):
    """A cluster at one moment."""

    at_s: float
    cluster_id: str
    controller_id: int
    brokers: Mapping[int, str]
    """Broker -> address."""
    partitions: Mapping[TopicPartition, PartitionStatus]
    ends: Mapping[TopicPartition, int]
    """Log end offsets, of partitions that have a leader."""
    disks: Mapping[int, BrokerDisks]
    """The disks of brokers that report them."""
    lags: Mapping[str, int | None] | None
    """By group; None: unknown, that of one group, or which groups there are."""
    problems: tuple[str, ...] = ()
    """What could not be read, and why."""


def broker_rows(now: TopSample, before: TopSample | None, sort: str) -> list[Sequence[str]]:
    """The columns of each registered broker; rates are those of what it leads now."""
    rows = []
    for node_id, address in now.brokers.items():
        led = [key for key, status in now.partitions.items() if status.leader == node_id]
        lagging = [
            key for key in led if len(now.partitions[key].isr) < len(now.partitions[key].replicas)
        ]
        held = sum(node_id in status.replicas for status in now.partitions.values())
        disks = now.disks.get(node_id)
        sizes = {} if disks is None else disks.sizes
        logs_bytes = sum(sizes.values())
        free_bytes = None
        if disks is not None and disks.disk_bytes >= 0:
            free_bytes = disks.disk_bytes - logs_bytes
        records_per_s = bytes_per_s = None
        if before is not None and now.at_s > before.at_s:
            elapsed_s = now.at_s - before.at_s
            records_per_s = _grown(led, now.ends, before.ends) / elapsed_s
            if disks is not None:
                # A follower that led before has the same log.
                former = before.disks[node_id].sizes if node_id in before.disks else {}
                bytes_per_s = _grown(led, sizes, former) / elapsed_s
        ranks = {
            "id": 0.0,
            "bytes": -(bytes_per_s or 0.0),
            "records": -(records_per_s or 0.0),
            "leaders": -float(len(led)),
        }
        columns = (
            str(node_id),
            address,
            str(len(led)),
            str(held),
            str(len(lagging)),
            "-" if records_per_s is None else f"{records_per_s:.0f}/s",
            "-" if bytes_per_s is None else f"{size_text(round(bytes_per_s))}/s",
            "-" if disks is None else size_text(logs_bytes),
            "-" if free_bytes is None else size_text(free_bytes),
        )
        rows.append((ranks[sort], node_id, columns))
    return [columns for _, _, columns in sorted(rows)]


def _grown(
    partitions: Sequence[TopicPartition],
    now: Mapping[TopicPartition, int],
    before: Mapping[TopicPartition, int],
) -> int:
    return sum(max(0, now[key] - before[key]) for key in partitions if key in now and key in before)


def page(
    now: TopSample, before: TopSample | None, *, sort: str = "id", error: str | None = None
) -> Iterator[str]:
    """The lines, however many there are; what matters most comes first."""
    controller = "none" if now.controller_id not in now.brokers else str(now.controller_id)
    yield f"Cluster {now.cluster_id}  controller {controller}  brokers {len(now.brokers)}"
    statuses = now.partitions
    offline = [key for key, status in statuses.items() if status.leader not in now.brokers]
    lagging = [key for key, status in statuses.items() if len(status.isr) < len(status.replicas)]
    yield (
        f"Partitions {len(statuses)}  offline {_named(offline)}  under-replicated {_named(lagging)}"
    )
    replicated = sorted({node_id for status in statuses.values() for node_id in status.replicas})
    missing = [node_id for node_id in replicated if node_id not in now.brokers]
    if missing:
        yield f"Not registered, with replicas: {', '.join(map(str, missing))}"
    for problem in now.problems if error is None else (error,):
        yield f"! {problem}"
    yield ""
    yield from aligned([COLUMNS, *broker_rows(now, before, sort)])
    yield ""
    yield from _groups(now, before)


def _groups(now: TopSample, before: TopSample | None) -> Iterator[str]:
    lags = now.lags
    if lags is None:
        yield "Groups unknown"
        return
    behind = sorted(
        (group for group, lag in lags.items() if lag != 0),
        key=lambda group: (-(lags[group] or 0), group),
    )
    yield f"Groups {len(lags)}, with lag {len(behind)}"
    if not behind:
        return
    table: list[Sequence[str]] = [("GROUP", "LAG", "CHANGE")]
    for group in behind[:GROUPS_MAX]:
        lag = lags[group]
        earlier = None if before is None or before.lags is None else before.lags.get(group)
        change = "-"
        if before is not None and lag is not None and earlier is not None:
            change = f"{(lag - earlier) / (now.at_s - before.at_s):+.0f}/s"
        table.append((one_line(group), "unknown" if lag is None else str(lag), change))
    yield from aligned(table)
    if len(behind) > GROUPS_MAX:
        yield f"and {len(behind) - GROUPS_MAX} more"


def _named(partitions: Sequence[TopicPartition]) -> str:
    return f"{len(partitions)} ({partition_names(partitions)})" if partitions else "0"
