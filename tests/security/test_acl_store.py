"""ACLs in znodes: brokers that change them, damage, lost sessions, many of them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.broker.security.acl.acl_filter import AclBindingFilter
from odradek.broker.security.acl.authorizer import Authorizer
from odradek.broker.security.acl.permission import DESCRIBE_TOPIC, WRITE_TOPIC
from odradek.broker.security.kafka_principal import KafkaPrincipal
from odradek.broker.settings.authorizer import AuthorizerSettings
from odradek.controller.znodes.acl_znodes import acls_path, encode_acl_change, encode_acls
from odradek.controller.znodes.zk_data import BadZnode
from odradek.protocol.acl import (
    AccessControlEntry,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from tests.support.cluster import Cluster

ALICE = KafkaPrincipal("User", "alice")


def topic(name: str, pattern: PatternType = PatternType.LITERAL) -> ResourcePattern:
    return ResourcePattern(ResourceType.TOPIC, name, pattern)


def entry(
    principal: str = "User:alice",
    operation: AclOperation = AclOperation.WRITE,
    permission_type: AclPermissionType = AclPermissionType.ALLOW,
) -> AccessControlEntry:
    return AccessControlEntry(principal, "*", operation, permission_type)


def everything(name: str | None = None) -> AclBindingFilter:
    return AclBindingFilter(
        ResourceType.ANY, name, PatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )


def request(host: str = "10.0.0.1", principal: KafkaPrincipal = ALICE) -> Any:
    return SimpleNamespace(principal=principal, client_host=host, api_key=0)


def join(cluster: Cluster, broker_id: int, *super_users: str) -> Authorizer:
    """The authorizer of a new broker."""
    authorizer = Authorizer(AuthorizerSettings(frozenset(super_users), False))
    node = cluster.add(broker_id, is_started=False)
    authorizer.begin(node.controller)
    node.start()
    cluster.settle()
    return authorizer


def test_two_brokers_that_change_the_acls_of_one_resource_lose_none() -> None:
    cluster = Cluster()
    brokers = [join(cluster, number) for number in (1, 2)]
    resources = [topic("t"), topic("t", PatternType.PREFIXED)]
    for number, broker in enumerate(brokers * 3):
        bindings = [(resource, entry(f"User:{number}")) for resource in resources]
        assert broker.create_acls(bindings).result() == [0, 0]
    added = {entry(f"User:{number}") for number in range(6)}
    for broker in brokers:
        assert [set(broker.entries(resource)) for resource in resources] == [added, added]
    nodes = cluster.tree.tree.nodes
    assert len(nodes["/kafka-acl-changes"].children) == 6
    assert len(nodes["/kafka-acl-extended-changes"].children) == 6
    (deleted,) = brokers[1].delete_acls([everything()]).result()
    assert {row.entry for row in deleted} == added
    assert len(deleted) == 12
    for broker in brokers:
        assert broker.resources() == []
    assert acls_path(resources[0]) not in nodes


def test_filter_gets_what_no_earlier_filter_has_matched() -> None:
    authorizer = join(Cluster(), 1)
    rows = [(topic("a"), entry()), (topic("a"), entry("User:bob")), (topic("b"), entry())]
    authorizer.create_acls(rows).result()
    first = everything()._replace(principal="User:bob")
    rows_of_filters = authorizer.delete_acls([first, everything("a"), everything(), first]).result()
    assert [
        [(row.resource.name, row.entry.principal) for row in rows] for rows in rows_of_filters
    ] == [[("a", "User:bob")], [("a", "User:alice")], [("b", "User:alice")], []]


def test_entries_that_the_broker_has_not_read_of_are_deleted_by_their_name() -> None:
    cluster = Cluster()
    authorizer = join(cluster, 1)
    session = cluster.connect(lambda event: None)
    session.create(acls_path(topic("t")), encode_acls([entry()])).result()
    (unnamed,) = authorizer.delete_acls([everything()]).result()
    assert unnamed == []
    named = everything("t")._replace(
        resource_type=ResourceType.TOPIC, pattern_type=PatternType.LITERAL
    )
    (deleted,) = authorizer.delete_acls([named]).result()
    assert [row.resource for row in deleted] == [topic("t")]


def test_broker_does_not_start_with_acls_that_it_cannot_read() -> None:
    cluster = Cluster()
    authorizer = join(cluster, 1)
    authorizer.create_acls([(topic("t"), entry())]).result()
    session = cluster.connect(lambda event: None)
    session.set(acls_path(topic("t")), b"{damaged").result()
    with pytest.raises(BadZnode, match="/kafka-acl/Topic/t"):
        join(cluster, 2)


def test_damage_that_is_notified_leaves_the_entries_in_force() -> None:
    cluster = Cluster()
    authorizer = join(cluster, 1)
    authorizer.create_acls([(topic("t"), entry())]).result()
    session = cluster.connect(lambda event: None)
    for content in (b"[]", b'{"version":2,"acls":[]}', b'{"version":1,"acls":[{"host":1}]}'):
        session.set(acls_path(topic("t")), content).result()
        notify(session, encode_acl_change(topic("t")))
        assert authorizer.authorize(request(), WRITE_TOPIC, "t")
    for change in (b"", b"Topic", b"NoType:t", b"TOPIC:a/b", b"\xff:t"):
        notify(session, change)
    warnings = cluster.nodes[1].warnings
    assert len(warnings) == 8
    session.set(acls_path(topic("t")), encode_acls([entry("User:bob")])).result()
    notify(session, b"Topic:t")
    assert not authorizer.authorize(request(), WRITE_TOPIC, "t")


def notify(session: Any, content: bytes) -> None:
    session.create("/kafka-acl-changes/acl_changes_", content, sequential=True).result()


def test_changes_while_there_was_no_session_are_read_although_nothing_notifies_of_them() -> None:
    cluster = Cluster()
    authorizer = join(cluster, 1)
    authorizer.create_acls([(topic("t"), entry()), (topic("gone"), entry())]).result()
    node = cluster.nodes[1]
    assert node.session is not None
    session = cluster.connect(lambda event: None)
    session.set(acls_path(topic("t")), encode_acls([entry("User:bob")])).result()
    session.delete(acls_path(topic("gone"))).result()
    assert authorizer.authorize(request(), WRITE_TOPIC, "t")
    cluster.tree.expire(node.session.session_id)
    cluster.settle()
    assert not authorizer.authorize(request(), WRITE_TOPIC, "t")
    assert authorizer.resources() == [topic("t")]


def test_super_user_may_do_what_is_denied() -> None:
    authorizer = join(Cluster(), 1, "User:root")
    denial = entry("User:*", AclOperation.ALL, AclPermissionType.DENY)
    authorizer.create_acls([(topic("*"), denial)]).result()
    root = KafkaPrincipal("User", "root", token_authenticated=True)
    assert authorizer.authorize(request(principal=root), WRITE_TOPIC, "t")
    assert authorizer.authorize_by_resource_type(request(principal=root), WRITE_TOPIC)
    assert not authorizer.authorize(request(), WRITE_TOPIC, "t")
    assert not authorizer.authorize_by_resource_type(request(), WRITE_TOPIC)


def test_decisions_are_kept_until_a_change_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    authorizer = join(Cluster(), 1)
    authorizer.create_acls([(topic("t", PatternType.PREFIXED), entry())]).result()
    evaluations: list[str] = []
    cache: Any = authorizer._cache
    evaluate: Callable[..., bool] = cache.authorize

    def count(*asked: Any) -> bool:
        evaluations.append(asked[-1])
        return evaluate(*asked)

    monkeypatch.setattr(cache, "authorize", count)
    monkeypatch.setattr("odradek.broker.security.acl.authorizer.DECISIONS_MAX", 10)
    for _ in range(3):
        assert authorizer.authorize(request(), WRITE_TOPIC, "t1")
        assert authorizer.authorize(request(), DESCRIBE_TOPIC, "t1")
        assert not authorizer.authorize(request("10.0.0.2"), WRITE_TOPIC, "s")
    assert evaluations == ["t1", "t1", "s"]
    for number in range(30):
        authorizer.authorize(request(), WRITE_TOPIC, f"t{number}")
    kept = [
        name
        for hosts in authorizer._decisions.values()
        for decisions in hosts.values()
        for names in decisions.values()
        for name in names
    ]
    assert len(kept) <= 10
    authorizer.create_acls([(topic("t1"), entry("User:alice", AclOperation.WRITE, DENY))]).result()
    assert not authorizer.authorize(request(), WRITE_TOPIC, "t1")


DENY = AclPermissionType.DENY


def test_two_thousand_acls_are_loaded_and_a_change_among_them_is_seen() -> None:
    cluster = Cluster()
    writer = join(cluster, 1)
    bindings = [(topic(f"topic-{number}"), entry()) for number in range(1_000)]
    bindings += [(topic(f"p{number}", PatternType.PREFIXED), entry()) for number in range(1_000)]
    assert set(writer.create_acls(bindings).result()) == {0}
    reader = join(cluster, 2)
    assert len(reader.resources()) == 2_000
    assert reader.authorize(request(), WRITE_TOPIC, "p999-more")
    assert not reader.authorize(request(), WRITE_TOPIC, "topic-999-more")
    writer.create_acls([(topic("p999-more"), entry(permission_type=DENY))]).result()
    assert not reader.authorize(request(), WRITE_TOPIC, "p999-more")
