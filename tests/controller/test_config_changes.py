"""Config changes: their cost, their notifications, their log lines."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from odradek.controller.active.topic_admin import Requester
from odradek.controller.coordination.errors import PROCEDURE_ERRORS, NoAuthorization
from odradek.controller.coordination.tree import Tree
from odradek.controller.decide.partitions import CreatePartitionsSpec
from odradek.controller.decide.topics import CreateTopicSpec
from odradek.controller.znodes import zk_data
from odradek.controller.znodes.change_notifications import (
    NOTIFICATION_AGE_MAX_MS,
    PURGE_INTERVAL_MS,
)
from odradek.controller.znodes.dynamic_configs import (
    NOTHING_DELETED,
    ChangeOverrides,
    ConfigChanges,
)
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.runtime.work import SerialQueue
from tests.support.cluster import Cluster
from tests.support.refusing_session import RefusingSession


class CountedTree:
    """A tree that counts its calls."""

    def __init__(self, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        for name in ("get", "exists", "children", "transact"):
            self._wrap(tree, name, monkeypatch)

    def _wrap(self, tree: Tree, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        call = getattr(tree, name)

        def counted(*arguments: object, **named: object) -> object:
            self.count += 1
            return call(*arguments, **named)

        monkeypatch.setattr(tree, name, counted)


def to(config: Mapping[str, str]) -> ChangeOverrides:
    """A change that replaces what is stored."""
    return lambda stored: config


def notifications(cluster: Cluster) -> list[str]:
    return sorted(cluster.tree.tree.nodes[zk_data.CONFIG_CHANGES].children)


def test_cost_of_alter_config_does_not_grow_with_notifications(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster()
    controller = cluster.add(1).controller
    controller.admin.create_topic(CreateTopicSpec("t", 1, 1)).result()
    counted = CountedTree(cluster.tree.tree, monkeypatch)
    costs = []
    for number in range(1_000):
        cluster.clock.advance(PURGE_INTERVAL_MS // 100)
        before = counted.count
        controller.admin.alter_config("topics", "t", to({"segment.bytes": str(number)})).result()
        costs.append(counted.count - before)
    # The first one asks for an age, which is due once a minute.
    assert max(costs) <= costs[0]
    assert sum(costs[1:]) <= 1_000 * (costs[0] - 1) + 10
    assert len(notifications(cluster)) == 1_000
    assert controller.image.topic_config("t")["segment.bytes"] == "999"


def test_config_notifications_of_the_last_15_minutes_are_kept() -> None:
    cluster = Cluster()
    controller = cluster.add(1).controller
    minutes = 40
    for number in range(minutes):
        controller.admin.alter_config("topics", "t", to({"segment.bytes": str(number)})).result()
        cluster.clock.advance(60_000)
    kept = notifications(cluster)
    assert kept[-1].endswith(f"{minutes - 1:010d}")
    allowed = NOTIFICATION_AGE_MAX_MS // 60_000 + 1
    assert allowed <= len(kept) <= allowed + 1


def test_broker_reads_each_config_change_once_after_its_session_expired() -> None:
    cluster = Cluster()
    cluster.add(1)
    reader = cluster.add(2)
    reader.configs.clear()
    for name in "abc":
        cluster.nodes[1].controller.admin.alter_config(
            "topics", name, lambda _: {"segment.ms": "7"}
        ).result()
    cluster.settle()
    assert [(kind, name) for kind, name, _ in reader.configs] == [
        ("topics", "a"),
        ("topics", "b"),
        ("topics", "c"),
    ]


@pytest.mark.parametrize("is_first_start", [True, False])
def test_topic_whose_settings_cannot_be_read_deletes_nothing(is_first_start: bool) -> None:
    cluster = Cluster()
    controller = cluster.add(1).controller
    stored = {"cleanup.policy": "compact"}
    controller.admin.create_topic(CreateTopicSpec("t", 1, 1, config=stored)).result()
    session = cluster.tree.connect(lambda event: None)
    session.set(zk_data.config_path("topics", "t"), b"{").result()
    if is_first_start:
        controller = cluster.add(2).controller
        expected = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
    else:
        controller.admin.alter_config("brokers", "1", to({"log.cleaner.threads": "1"})).result()
        expected = stored
    cluster.settle()
    assert dict(controller.image.topic_config("t")) == expected


def test_log_names_the_requester_of_topic_changes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    controller = Cluster().add(1).controller
    caplog.clear()
    by = "client 'c' at 192.0.2.1"
    made = controller.admin.create_topic(
        CreateTopicSpec("t", 2, 1, config={"segment.ms": "9"}), Requester(by)
    ).result()
    controller.admin.create_topic(CreateTopicSpec("u", 1, 1), Requester(by, validate_only=True))
    controller.admin.auto_create_topic(CreateTopicSpec("v"), Requester(by))
    controller.admin.create_partitions(CreatePartitionsSpec("t", 5), Requester(by))
    controller.admin.alter_config("topics", "t", lambda _: {"segment.ms": "8"}, requested_by=by)
    controller.admin.alter_config(
        "brokers", "1", lambda _: {"ssl.keystore.password": "hidden"}, requested_by=by
    )
    controller.admin.delete_topic("t", Requester(by))
    lines = [record.getMessage() for record in caplog.records]
    topic_id = zk_data.encode_topic_id(made.topic_id)
    assert lines[0] == (
        f"topic t was created: id {topic_id}, 2 partitions, replication factor 1, segment.ms=9, "
        f"by {by}"
    )
    assert lines[1].startswith("topic v was created: id ")
    assert lines[1].endswith(f"default config, by first use by {by}")
    assert lines[2:] == [
        f"topic t has 5 partitions now, 3 of them new, by {by}",
        f"settings of topics t are stored: segment.ms=8, by {by}",
        f"settings of brokers 1 are stored: ssl.keystore.password, by {by}",
        f"topic t is marked for deletion, by {by}",
        f"topic t was deleted: id {topic_id}, 5 partitions",
    ]


def test_two_brokers_that_change_one_topic_lose_no_change() -> None:
    """Another broker's change is stored between the read of the first one and its write."""
    cluster = Cluster()
    first, second = cluster.add(1).controller, cluster.add(2).controller
    first.admin.create_topic(CreateTopicSpec("t", 1, 1)).result()
    calls = 0

    def add_first(stored: Mapping[str, str]) -> Mapping[str, str]:
        nonlocal calls
        calls += 1
        if calls == 1:
            second.admin.alter_config(
                "topics", "t", lambda now: {**now, "segment.ms": "2"}
            ).result()
        return {**stored, "segment.bytes": "1"}

    first.admin.alter_config("topics", "t", add_first).result()
    assert calls == 2
    cluster.settle()
    for controller in (first, second):
        stored = controller.image.topic_config("t")
        assert (stored["segment.bytes"], stored["segment.ms"]) == ("1", "2")


def test_change_that_is_refused_on_what_is_stored_writes_nothing() -> None:
    cluster = Cluster()
    controller = cluster.add(1).controller
    controller.admin.create_topic(CreateTopicSpec("t", 1, 1)).result()
    before = notifications(cluster)

    def refuse(stored: Mapping[str, str]) -> Mapping[str, str]:
        raise BrokerError(ErrorCode.INVALID_CONFIG, "no")

    with pytest.raises(BrokerError, match="no"):
        controller.admin.alter_config("topics", "t", refuse).result()
    assert notifications(cluster) == before


class Reader:
    """A reader of configs that may not read the config of topic `locked`."""

    def __init__(self, cluster: Cluster) -> None:
        self.configs: list[tuple[str, dict[str, str]]] = []
        self.warnings: list[str] = []
        self.executor = SerialQueue(*PROCEDURE_ERRORS)
        session = RefusingSession(
            cluster.tree.connect(lambda event: None), "/config/topics/locked", NoAuthorization
        )
        self.changes = ConfigChanges(session, self._on_config, self.warnings.append)

    def _on_config(self, entity_type: str, entity: str, config: Mapping[str, str]) -> None:
        self.configs.append((entity, dict(config)))


def test_config_that_may_not_be_read_holds_up_no_other_change() -> None:
    cluster = Cluster()
    writer = cluster.add(1).controller
    reader = Reader(cluster)
    reader.executor.submit(reader.changes.load).result()
    for name in ("locked", "open"):
        writer.admin.alter_config("topics", name, to({"segment.ms": "7"})).result()
        for _ in range(2):
            reader.executor.submit(lambda: reader.changes.on_changes(0)).result()
    assert reader.configs == [("open", {"segment.ms": "7"})]
    assert reader.warnings == ["config of topics locked: NoAuthorization when it is read"]


def test_broker_starts_with_a_config_that_it_may_not_read() -> None:
    cluster = Cluster()
    writer = cluster.add(1).controller
    for name in ("locked", "open"):
        writer.admin.alter_config("topics", name, to({"segment.ms": "7"})).result()
    reader = Reader(cluster)
    reader.executor.submit(reader.changes.load).result()
    assert sorted(reader.configs) == [("locked", NOTHING_DELETED), ("open", {"segment.ms": "7"})]
    assert len(reader.warnings) == 1
