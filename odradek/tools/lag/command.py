"""`odradek lag`: a verdict on each consumer group, by Burrow's rules.

One look is enough: what was committed in the last minutes is read of `__consumer_offsets`.
Exit codes: 0 success, whatever the verdicts; 1 failure; 2 an invalid command line; with --check, 3
when a group is not OK.  The reason is on stderr.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from json import dumps
from typing import Any, Final

from odradek.protocol.messages.list_offsets import LATEST_TIMESTAMP
from odradek.tools.client import CLIENT_ID, Client
from odradek.tools.console.errors import ConsoleError
from odradek.tools.console.properties import CONSUMER, load_properties
from odradek.tools.consumer_groups.group_offsets import committed_offsets_of
from odradek.tools.consumer_groups.queries import list_groups
from odradek.tools.errors import KafkaError, ToolError
from odradek.tools.lag.evaluation import GroupLag, LagStatus, PartitionLag, evaluate
from odradek.tools.lag.history import OFFSETS_TOPIC, committed_since, with_lags
from odradek.tools.lag.http_pages import CachedVerdicts, group_json, http_page
from odradek.tools.library_client import open_client as open_library_client
from odradek.tools.notifications import NOTIFY_FLAGS, Notifier, open_notifier
from odradek.tools.options import CLIENT_FLAGS, Options, positive_number, read_flags
from odradek.tools.page_server import open_page_server
from odradek.tools.partition_offsets import list_offsets
from odradek.tools.run_command import run_with_client
from odradek.tools.tables import aligned, one_line

WHAT_IT_DOES: Final = "This tool says whether consumer groups keep up, by what they have committed."
TIMEOUT_S: Final = 30.0
MINUTES: Final = 10
INTERVAL_MS: Final = 1_000
CLUSTER: Final = "local"
NOT_OK: Final = 3
WATCH_S: Final = 30.0
"""Between two looks for --notify."""
COLUMNS: Final = ("GROUP", "STATUS", "TOTAL-LAG", "TOPIC", "PARTITION", "LAG", "LAST-COMMIT")

FLAGS: Final = (*CLIENT_FLAGS, *NOTIFY_FLAGS, *read_flags("lag"))


def main(arguments: Sequence[str]) -> int:
    return run_with_client(arguments, WHAT_IT_DOES, _act, FLAGS)


def _act(client: Client, options: Options) -> int:
    config = options.value("command-config")
    look = partial(
        read_verdicts,
        client,
        groups=options.values("group"),
        minutes=positive_number(options, "minutes", MINUTES),
        interval_ms=positive_number(options, "interval-ms", INTERVAL_MS),
    )
    cluster = options.value("cluster") or CLUSTER
    notifier = open_notifier(options, lambda line: print(line, file=sys.stderr))
    changes = None if notifier is None else VerdictChanges(cluster, notifier)
    with ExitStack() as stack:
        if notifier is not None:
            stack.callback(notifier.close)
        try:
            consumer = open_library_client(
                CONSUMER,
                {
                    **({} if config is None else load_properties(config)),
                    "bootstrap.servers": options.required("bootstrap-server"),
                    "group.id": CLIENT_ID,
                    "client.id": CLIENT_ID,
                },
                {"enable.partition.eof": True, "enable.auto.commit": False},
            )
        except ConsoleError as error:
            raise ToolError(str(error)) from error
        with closing(consumer):
            listen = options.value("listen")
            if listen is not None:
                cached = CachedVerdicts(partial(look, consumer))
                return serve(listen, cluster, cached, changes)
            verdicts = look(consumer)
            if changes is not None:
                changes.note(verdicts)
    if options.has("json"):
        for verdict in verdicts.values():
            print(dumps(group_json(cluster, verdict, shows_all=True)))
    else:
        print(*table(verdicts), sep="\n")
    is_ok = all(verdict.status is LagStatus.OK for verdict in verdicts.values())
    return NOT_OK if options.has("check") and not is_ok else 0


def read_verdicts(
    client: Client, consumer: Any, *, groups: Sequence[str], minutes: int, interval_ms: int
) -> dict[str, GroupLag]:
    """Verdicts by group, sorted.

    groups  only these; empty: all
    raises  ToolError
    """
    names = [group.group_id for group in list_groups(client)]
    if groups:
        missing = [name for name in groups if name not in names]
        if missing:
            raise KafkaError(f"Consumer group '{missing[0]}' does not exist.")
        names = sorted(set(groups))
    if not names:
        return {}
    metadata = client.metadata()
    existing = {
        (topic.name, row.partition_index) for topic in metadata.topics for row in topic.partitions
    }
    committed: dict[str, dict[Any, int]] = {}
    for name, offsets in committed_offsets_of(client, names).items():
        if isinstance(offsets, KafkaError):
            raise offsets
        # Offsets of deleted topics stay until they expire.
        committed[name] = {key: value for key, value in offsets.items() if key in existing}
    now_ms = time.time_ns() // 1_000_000
    since_ms = now_ms - minutes * 60_000
    has_offsets = any(topic.name == OFFSETS_TOPIC for topic in metadata.topics)
    recent = committed_since(consumer, since_ms, names, TIMEOUT_S) if has_offsets else {}
    ends = list_offsets(
        client, {key for offsets in committed.values() for key in offsets}, LATEST_TIMESTAMP
    )
    commits = with_lags(client, recent, interval_ms, ends)
    return {
        name: evaluate(
            name,
            commits.get(name, {}),
            {key: max(0, ends[key] - offset) for key, offset in offsets.items()},
            now_ms,
        )
        for name, offsets in committed.items()
    }


def serve(listen: str, cluster: str, cached: CachedVerdicts, changes: VerdictChanges | None) -> int:
    """Serve until a signal; returns the exit code.

    changes  note the verdicts of every WATCH_S, also without a request
    raises   OptionsError, ToolError
    """
    with open_page_server(listen, lambda path: http_page(path, cluster, cached)) as server:
        if changes is not None:
            threading.Thread(target=_watch, args=(cached, changes), daemon=True).start()
        server.serve_forever()
    return 0


def _watch(cached: CachedVerdicts, changes: VerdictChanges) -> None:
    while True:
        try:
            changes.note(cached.get())
        except ToolError as error:
            print(error, file=sys.stderr)
        time.sleep(WATCH_S)


class VerdictChanges:
    """Compares the verdicts of one look with those of the last; memory for a status a group."""

    def __init__(self, cluster: str, notifier: Notifier) -> None:
        self._cluster = cluster
        self._notifier = notifier
        self._statuses: dict[str, LagStatus] = {}

    def note(self, verdicts: Mapping[str, GroupLag]) -> None:
        """Notify of each group whose status is another one; the first look, of all not OK."""
        for group, verdict in verdicts.items():
            former = self._statuses.get(group, LagStatus.OK)
            if verdict.status is not former:
                self._notifier.notify(f"group {group}", self._fields(verdict, former))
        self._statuses = {group: verdict.status for group, verdict in verdicts.items()}

    def _fields(self, verdict: GroupLag, former: LagStatus) -> dict[str, object]:
        fields: dict[str, object] = {
            "kind": "lag",
            "text": f"Kafka consumer group {verdict.group} is {verdict.status.name}, was "
            f"{former.name}: {verdict.total_lag} records to read",
            "cluster": self._cluster,
            "group": verdict.group,
            "status": verdict.status.name,
            "former_status": former.name,
            "total_lag": verdict.total_lag,
        }
        if verdict.worst is not None:
            topic, partition = verdict.worst.partition
            fields |= {
                "topic": topic,
                "partition": partition,
                "partition_status": verdict.worst.status.name,
            }
        return fields


def table(verdicts: dict[str, GroupLag]) -> Iterator[str]:
    """A row for each group, and one for each of its partitions that is in trouble."""
    rows: list[Sequence[str]] = [COLUMNS]
    for verdict in verdicts.values():
        worst = verdict.worst
        last = ("-", "-", "-", "-") if worst is None else place(worst)
        rows.append((one_line(verdict.group), verdict.status.name, str(verdict.total_lag), *last))
        rows.extend(
            ("", partition.status.name, "", *place(partition))
            for partition in verdict.partitions
            if partition.status is not LagStatus.OK
        )
    yield from aligned(rows)


def place(partition: PartitionLag) -> tuple[str, str, str, str]:
    """Topic, partition, lag, and the age of the last commit."""
    topic, index = partition.partition
    if not partition.commits:
        return topic, str(index), str(partition.current_lag), "-"
    age_s = max(0.0, time.time() - partition.commits[-1].timestamp_ms / 1000)
    return topic, str(index), str(partition.current_lag), f"{age_s:.0f} s ago"
