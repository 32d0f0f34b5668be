"""Verdicts over HTTP, on the paths and in the JSON of Burrow's version 3.

    /v3/kafka                            the name of the cluster
    /v3/kafka/CLUSTER/consumer           the groups
    /v3/kafka/CLUSTER/consumer/G/status  the verdict on a group, with the partitions in trouble
    /v3/kafka/CLUSTER/consumer/G/lag     the verdict with all partitions

Source: Burrow's HTTP API.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import unquote

from odradek.tools.errors import ToolError
from odradek.tools.lag.evaluation import GroupLag, LagStatus, PartitionLag
from odradek.tools.page_server import ToolPage

CACHE_S: Final = 10.0
"""How long a verdict is served (Burrow: expire-cache)."""
ROOT: Final = ("v3", "kafka")

Verdicts = Mapping[str, GroupLag]


class CachedVerdicts:
    """The verdicts on all groups, made again when they are older than `CACHE_S`."""

    def __init__(self, make: Callable[[], Verdicts]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made_at_s = -CACHE_S
        self._verdicts: Verdicts = {}

    def get(self) -> Verdicts:
        """raises  ToolError"""
        with self._lock:
            if time.monotonic() - self._made_at_s >= CACHE_S:
                self._verdicts = self._make()
                self._made_at_s = time.monotonic()
            return self._verdicts


def page(path: str, cluster: str, cached: CachedVerdicts) -> tuple[int, dict[str, Any]]:
    """The status code and the content of a path.

    raises  ToolError when the cluster cannot be asked
    """
    parts = tuple(unquote(part) for part in path.partition("?")[0].strip("/").split("/"))
    if parts[:2] != ROOT:
        return failed(404, "invalid path")
    match parts[2:]:
        case ():
            return done("cluster list returned", clusters=[cluster])
        case (name, *_) if name != cluster:
            return failed(404, "cluster not found")
        case (_, "consumer"):
            return done("consumer list returned", consumers=sorted(cached.get()))
        case (_, "consumer", group, ("status" | "lag") as kind):
            verdict = cached.get().get(group)
            if verdict is None:
                return failed(404, "consumer group not found")
            status = group_json(cluster, verdict, shows_all=kind == "lag")
            return done("consumer status returned", status=status)
    return failed(404, "invalid path")


def done(message: str, **content: object) -> tuple[int, dict[str, Any]]:
    """A response that has something."""
    return 200, {"error": False, "message": message, **content}


def failed(code: int, message: str) -> tuple[int, dict[str, Any]]:
    """A response that says why it has nothing."""
    return code, {"error": True, "message": message}


def group_json(cluster: str, verdict: GroupLag, *, shows_all: bool) -> dict[str, Any]:
    """A group; with all of its partitions, or with those in trouble."""
    partitions = [
        partition_json(partition)
        for partition in verdict.partitions
        if shows_all or partition.status > LagStatus.OK
    ]
    worst = verdict.worst
    return {
        "cluster": cluster,
        "group": verdict.group,
        "status": verdict.status.name,
        "complete": verdict.complete,
        "partitions": partitions,
        "partition_count": len(verdict.partitions),
        "maxlag": None if worst is None else partition_json(worst),
        "totallag": verdict.total_lag,
    }


def partition_json(partition: PartitionLag) -> dict[str, Any]:
    """A partition, with the first and the last commit of its window."""
    ends = [
        {"offset": commit.offset, "timestamp": commit.timestamp_ms, "lag": commit.lag}
        for commit in (*partition.commits[:1], *partition.commits[-1:])
    ]
    first, last = ends or (None, None)
    return {
        "topic": partition.partition.topic,
        "partition": partition.partition.partition,
        "owner": "",
        "client_id": "",
        "status": partition.status.name,
        "start": first,
        "end": last,
        "current_lag": partition.current_lag,
        "complete": partition.complete,
    }


def http_page(path: str, cluster: str, cached: CachedVerdicts) -> ToolPage:
    """The response for a path; 503 with the reason when the cluster cannot be asked."""
    try:
        code, content = page(path, cluster, cached)
    except ToolError as error:
        code, content = failed(503, str(error))
    content["request"] = {"url": path, "host": socket.gethostname()}
    return ToolPage(code, "application/json", json.dumps(content).encode())
