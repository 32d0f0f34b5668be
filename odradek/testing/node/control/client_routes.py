"""Routes about clients: their requests, their groups, and who coordinates them."""

from __future__ import annotations

from collections import Counter
from typing import Final

from odradek.broker.group.classic.state import ClassicGroup
from odradek.broker.topics import OFFSETS_TOPIC, TRANSACTION_TOPIC, partition_for
from odradek.protocol.api_keys import api_named
from odradek.protocol.errors import BrokerError
from odradek.testing.node.client_requests import ClientName
from odradek.testing.node.control.node import ControlledNode
from odradek.testing.node.control.routes import Arguments, Routes, bad_request, conflict, not_found
from odradek.testing.node.releases import is_peer

KINDS: Final = {"group": OFFSETS_TOPIC, "transactional_id": TRANSACTION_TOPIC}


class ClientRoutes:
    """What clients do at one broker."""

    def __init__(self, node: ControlledNode) -> None:
        self._node = node
        self._requests = node.requests

    def add_to(self, routes: Routes) -> None:
        routes.add(
            "GET",
            "/requests",
            "how many there were, by API, version and client",
            self.requests,
            takes=("api",),
        )
        routes.add("DELETE", "/requests", "count from zero again", self.forget)
        routes.add(
            "GET", "/connections", "how many are open, by client; without brokers", self.connections
        )
        routes.add(
            "POST",
            "/groups/{group}/rebalance",
            "have all members join again; at the coordinator of the group",
            self.rebalance,
        )
        routes.add(
            "GET",
            "/coordinator",
            "the partition whose leader coordinates a group or a transactional id",
            self.coordinator,
            takes=tuple(KINDS),
        )

    def requests(self, arguments: Arguments) -> object:
        """
        api  only of this one, such as Produce
        """
        name = arguments.text("api", None)
        api_key = None if name is None else api_named(name)
        if name is not None and api_key is None:
            raise bad_request(f"there is no API {name!r}: they are such as Produce")
        counts: Counter[tuple[str, int, str]] = Counter()
        for kind, count in self._requests.counts().items():
            if api_key not in (None, kind.api_key):
                continue
            counts[kind.api, kind.version, kind.client.client_id] += count
        names = ("api", "version", "client_id", "count")
        rows = [(*seen, count) for seen, count in sorted(counts.items())]
        return {"requests": [dict(zip(names, row, strict=True)) for row in rows]}

    def connections(self, arguments: Arguments) -> object:
        """Count connections by client; a test knows nothing of those of other brokers."""
        clients = map(self._requests.client_of, self._node.parts.server.connections)
        counts = Counter(client for client in clients if not is_peer(client.client_id))
        names = (*ClientName._fields, "count")
        rows = [(*client, count) for client, count in sorted(counts.items())]
        return {"connections": [dict(zip(names, row, strict=True)) for row in rows]}

    def forget(self, arguments: Arguments) -> object:
        self._requests.forget()
        return {}

    def rebalance(self, arguments: Arguments) -> object:
        name = arguments.text("group")
        try:
            shard = self._node.services.groups.shard_of(name)
        except BrokerError as error:
            raise conflict(f"{name} is not coordinated here: {error.code.name}") from error
        group = shard.groups.get(name)
        if group is None:
            raise not_found(f"there is no group {name} here")
        if not isinstance(group.body, ClassicGroup):
            raise conflict(f"{name} is a group of the consumer protocol, whose members never wait")
        if not group.body.members:
            raise conflict(f"{name} has no members")
        shard.rebalance(group.body)
        return {"members": len(group.body.members)}

    def coordinator(self, arguments: Arguments) -> object:
        named = {kind: arguments.text(kind, None) for kind in KINDS}
        given = [kind for kind in KINDS if named[kind] is not None]
        if len(given) != 1:
            raise bad_request(f"one of {' and '.join(KINDS)} is needed")
        topic = KINDS[given[0]]
        topic_image = self._node.parts.metadata.image.topics.get(topic)
        if topic_image is None:
            raise not_found(f"there is no {topic} yet")
        index = partition_for(named[given[0]], len(topic_image.partitions))
        return {"topic": topic, "partition": index}
