"""Checks of settings against one another, before a broker starts with them or applies them.

Source: Kafka's KafkaConfig.validateValues, for ZooKeeper mode.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from odradek.broker.settings.authorizer import (
    ALLOW_EVERYONE,
    AUTHORIZER_CLASSES,
    SUPER_USERS,
    authorizer_settings,
)
from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.settings.definitions import BROKER, base_name
from odradek.broker.settings.groups import (
    ASSIGNMENT_INTERVAL_SETTING,
    assignment_interval_ms,
    assignor_names,
)
from odradek.broker.settings.listeners import HOST_RULE, PORT_MAX, SASL_PROTOCOLS, is_host
from odradek.broker.settings.password_encoder import encoding
from odradek.broker.settings.synonyms import RETENTION
from odradek.broker.settings.types import InvalidValueError, value_text

ZOOKEEPER_DIGEST: Final = "odradek.zookeeper.digest"
"""`user:password` for ZooKeeper's digest scheme; Kafka takes credentials from a JAAS file."""
TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")

ZOOKEEPER_HOST: Final = re.compile(
    r"(?:\[[0-9a-fA-F:.]+(?:%[\w.-]+)?\]|(?P<name>[^\s\[\]:]+))(?::(?P<port>[0-9]{1,5}))?"
)

MEGABYTE: Final = 1024 * 1024

# Starting as if these were not set would drop a guard that the operator relies on, or lose data.
REFUSED: Final = (
    ("zookeeper.metadata.migration.enable", (False,), "Moving to KRaft is not served"),
    ("zookeeper.ssl.crl.enable", (False,), "Revocation lists are not served"),
    ("zookeeper.ssl.ocsp.enable", (False,), "OCSP is not served"),
    ("remote.log.storage.system.enable", (False,), "Tiered storage is not served"),
    ("authorizer.class.name", ("", *AUTHORIZER_CLASSES), "Java classes cannot be loaded"),
    ("create.topic.policy.class.name", (None,), "Java classes cannot be loaded"),
    ("alter.config.policy.class.name", (None,), "Java classes cannot be loaded"),
    ("client.quota.callback.class", (None,), "Java classes cannot be loaded"),
    (
        "replica.selector.class",
        (None, "", "org.apache.kafka.common.replica.RackAwareReplicaSelector"),
        "Java classes cannot be loaded",
    ),
)
"""(setting, allowed values, reason why every other value is refused)."""

PLUGIN_PREFIXES: Final = ("rsm.config.", "rlmm.config.", "authorizer.", "confluent.", "odradek.")
PLUGIN_SETTINGS: Final = (SUPER_USERS, ALLOW_EVERYONE, "config.providers")
"""Settings that Kafka's plug-ins read and its tables do not contain."""


def require(holds: bool, name: str, value: object, allowed: str) -> None:
    """Refuse `value` for the setting `name` unless `holds`.

    raises  InvalidValueError
    """
    if not holds:
        raise InvalidValueError(name, value, allowed)


def check_settings(settings: BrokerSettings) -> None:
    """Run every check that concerns more than one value.

    raises  InvalidValueError of the first check that fails
    """
    check_refused(settings)
    check_zookeeper(settings)
    check_identity(settings)
    check_logs(settings)
    check_replication(settings)
    check_connections(settings)
    check_listeners(settings)
    check_groups(settings)
    encoding(settings.raw)
    if settings.authorizer_class_name:
        authorizer_settings(settings.written)


def check_refused(settings: BrokerSettings) -> None:
    """Refuse settings of features that do not exist here."""
    for name, allowed_values, reason in REFUSED:
        value = settings.raw[name]
        require(value in allowed_values, name, value_text(value), reason)
    protocols = settings.raw["group.coordinator.rebalance.protocols"]
    assert isinstance(protocols, tuple), "a list setting is a tuple"
    name = "group.coordinator.rebalance.protocols"
    require("classic" in protocols, name, ",".join(protocols), "classic cannot be left out")
    other = [protocol for protocol in protocols if protocol not in ("classic", "consumer")]
    require(not other, name, ",".join(protocols), "only classic and consumer are served")


def check_zookeeper_connect(connect: str) -> None:
    """Refuse what names no host, or a host that is not `host`, `host:port` or `[IPv6]:port`.

    raises  InvalidValueError
    """
    hosts = [host.strip() for host in connect.partition("/")[0].split(",") if host.strip()]
    for host in hosts or [""]:
        matched = ZOOKEEPER_HOST.fullmatch(host)
        allowed = f"Expected host:port,host:port/chroot, in which '{host}' is not host:port"
        is_valid = matched is not None and int(matched["port"] or 0) <= PORT_MAX
        require(is_valid, "zookeeper.connect", connect, allowed)
        name = "" if matched is None else matched["name"]
        allowed = f"Expected hosts, which '{host}' is not: {HOST_RULE}"
        require(not name or is_host(name), "zookeeper.connect", connect, allowed)


def check_zookeeper(settings: BrokerSettings) -> None:
    """Check the addresses of ZooKeeper, TLS to it, and that its ACLs can name this broker."""
    raw = settings.raw
    if settings.zookeeper_connect is not None and settings.quorum is None:
        check_zookeeper_connect(settings.zookeeper_connect)
    if raw["zookeeper.ssl.client.enable"]:
        for version in zookeeper_tls_versions(settings):
            name = "zookeeper.ssl.enabled.protocols"
            require(version in TLS_VERSIONS, name, version, f"served: {', '.join(TLS_VERSIONS)}")
    has_identity = ZOOKEEPER_DIGEST in settings.written or bool(
        raw["zookeeper.ssl.client.enable"] and raw["zookeeper.ssl.keystore.location"]
    )
    allowed = f"it needs {ZOOKEEPER_DIGEST}, or zookeeper.ssl.keystore.location with TLS"
    require(has_identity or not settings.zookeeper_set_acl, "zookeeper.set.acl", True, allowed)


def zookeeper_tls_versions(settings: BrokerSettings) -> tuple[str, ...]:
    """The versions of TLS that may be used with ZooKeeper."""
    enabled = settings.raw["zookeeper.ssl.enabled.protocols"]
    if isinstance(enabled, tuple) and enabled:
        return tuple(str(version) for version in enabled)
    return (str(settings.raw["zookeeper.ssl.protocol"]),)


def check_identity(settings: BrokerSettings) -> None:
    """Check broker.id and node.id."""
    broker_id, node_id = settings.broker_id, settings.raw["node.id"]
    require(node_id == broker_id, "node.id", node_id, f"Value must equal broker.id ({broker_id})")
    if settings.broker_id_generation_enable:
        high = settings.reserved_broker_max_id
        allowed = f"Value must be between -1 and reserved.broker.max.id ({high})"
        require(-1 <= broker_id <= high, "broker.id", broker_id, allowed)
    else:
        allowed = "Value must be at least 0 without broker.id.generation.enable"
        require(broker_id >= 0, "broker.id", broker_id, allowed)


def check_logs(settings: BrokerSettings) -> None:
    """Check directories, times and buffers of logs."""
    value: float = settings.log_roll_ms
    require(value >= 1, "log.roll.ms", value, "Value must be at least 1")
    value = settings.log_roll_jitter_ms
    require(value >= 0, "log.roll.jitter.ms", value, "Value must be at least 0")
    value = settings.log_retention_ms
    name = next(name for name in RETENTION if settings.raw[name] is not None)
    allowed = "Value must be at least 1 or -1"
    require(value >= 1 or value == -1, name, settings.raw[name], allowed)
    # Differs from Kafka, where an empty list is taken, and no log deletes or compacts anything.
    allowed = "Expected delete, compact, or both"
    require(bool(settings.log_cleanup_policy), "log.cleanup.policy", "", allowed)
    allowed = "Expected at least one directory in log.dirs or log.dir"
    require(bool(settings.log_dirs), "log.dirs", "", allowed)
    check_folders(settings.log_dirs)
    threads, buffer_size = settings.log_cleaner_threads, settings.log_cleaner_dedupe_buffer_size
    require(threads >= 1, "log.cleaner.threads", threads, "Value must be at least 1")
    allowed = f"Value must be more than {MEGABYTE} for each of log.cleaner.threads ({threads})"
    name = "log.cleaner.dedupe.buffer.size"
    require(buffer_size // threads > MEGABYTE, name, buffer_size, allowed)
    low, high = (
        settings.log_cleaner_min_compaction_lag_ms,
        settings.log_cleaner_max_compaction_lag_ms,
    )
    allowed = f"Value must be no more than log.cleaner.max.compaction.lag.ms ({high})"
    require(low <= high, "log.cleaner.min.compaction.lag.ms", low, allowed)


def check_folders(folders: Iterable[str]) -> None:
    """Refuse a directory that is listed twice.

    raises  InvalidValueError
    """
    seen: dict[str, None] = {}
    for folder in folders:
        require(folder not in seen, "log.dirs", folder, "Each directory may be listed once")
        seen[folder] = None


def check_replication(settings: BrokerSettings) -> None:
    """Check waiting times of followers."""
    wait_ms = settings.replica_fetch_wait_max_ms
    for name, high in (
        ("replica.socket.timeout.ms", settings.replica_socket_timeout_ms),
        ("replica.lag.time.max.ms", settings.replica_lag_time_max_ms),
    ):
        allowed = f"Value must be no more than {name} ({high})"
        require(wait_ms <= high, "replica.fetch.wait.max.ms", wait_ms, allowed)


def check_groups(settings: BrokerSettings) -> None:
    """Check times and assignors of groups of the consumer protocol."""
    bounds = (
        (
            "group.consumer.heartbeat.interval.ms",
            settings.group_consumer_heartbeat_interval_ms,
            settings.group_consumer_min_heartbeat_interval_ms,
            settings.group_consumer_max_heartbeat_interval_ms,
        ),
        (
            "group.consumer.session.timeout.ms",
            settings.group_consumer_session_timeout_ms,
            settings.group_consumer_min_session_timeout_ms,
            settings.group_consumer_max_session_timeout_ms,
        ),
    )
    for name, value, low, high in bounds:
        allowed = f"Value must be between its minimum ({low}) and its maximum ({high})"
        require(low <= value <= high, name, value, allowed)
    assignor_names(settings.group_consumer_assignors)
    assignment_interval_ms(settings.written)


def check_connections(settings: BrokerSettings) -> None:
    """Check bounds of connections and requests."""
    queued, request = settings.queued_max_request_bytes, settings.socket_request_max_bytes
    allowed = f"Value must be at least socket.request.max.bytes ({request}), or 0 or less"
    require(queued <= 0 or queued >= request, "queued.max.request.bytes", queued, allowed)
    if settings.max_connections_per_ip == 0:
        allowed = "0 needs max.connections.per.ip.overrides"
        overrides = settings.max_connections_per_ip_overrides
        require(bool(overrides), "max.connections.per.ip", 0, allowed)
    delay_ms = settings.connection_failed_authentication_delay_ms
    idle_ms = settings.connections_max_idle_ms
    name = "connection.failed.authentication.delay.ms"
    allowed = f"Value must be less than connections.max.idle.ms ({idle_ms})"
    require(idle_ms < 0 or delay_ms < idle_ms, name, delay_ms, allowed)


def check_listeners(settings: BrokerSettings) -> None:
    """Check which listeners are bound, which are advertised, and which the brokers use."""
    quorum = settings.quorum
    if not settings.is_broker:
        return
    allowed = "Value must be empty without process.roles"
    controllers = settings.raw["controller.listener.names"]
    require(
        quorum is not None or not controllers, "controller.listener.names", controllers, allowed
    )
    names = [listener.name for listener in settings.listeners]
    advertised = [listener.name for listener in settings.advertised_listeners]
    allowed = "Expected at least one listener"
    if quorum is not None:
        allowed += f" besides those of the controller ({', '.join(quorum.controller_listeners)})"
    require(bool(names), "listeners", settings.raw["listeners"] if quorum else "", allowed)
    require(bool(advertised), "advertised.listeners", "", "Expected at least one listener")
    if any(listener.protocol in SASL_PROTOCOLS for listener in settings.listeners):
        # Imported only where clients authenticate.
        from odradek.broker.settings.sasl import check_sasl

        check_sasl(settings)
    for listener in settings.advertised_listeners:
        allowed = f"Expected a name out of listeners ({', '.join(names)})"
        require(listener.name in names, "advertised.listeners", listener, allowed)
        allowed = "0.0.0.0 is not an address that clients can connect to; set advertised.listeners"
        require(listener.host != "0.0.0.0", "advertised.listeners", listener, allowed)
    inter_broker = settings.inter_broker_listener_name
    allowed = f"Expected a name out of advertised.listeners ({', '.join(advertised)})"
    require(inter_broker in advertised, "inter.broker.listener.name", inter_broker, allowed)
    control_plane = settings.control_plane_listener_name
    if control_plane is not None:
        name = "control.plane.listener.name"
        require(control_plane.upper() in advertised, name, control_plane, allowed)
        allowed = "Value must differ from the listener between brokers"
        require(control_plane.upper() != inter_broker, name, control_plane, allowed)


INEFFECTIVE: Final = frozenset(
    (
        *("num.network.threads", "num.io.threads", "background.threads"),
        *("num.recovery.threads.per.data.dir", "log.cleaner.threads"),
        *("num.replica.alter.log.dirs.threads", "queued.max.requests"),
        *("log.cleaner.io.buffer.size", "offsets.load.buffer.size"),
        *("transaction.state.log.load.buffer.size", "replica.socket.receive.buffer.bytes"),
        *("log.initial.task.delay.ms", "log.index.size.max.bytes"),
        "log.flush.start.offset.checkpoint.interval.ms",
        *("log.message.downconversion.enable", "offsets.commit.required.acks"),
        "socket.connection.setup.timeout.max.ms",
        *("sasl.kerberos.service.name", "sasl.kerberos.kinit.cmd"),
        *("sasl.kerberos.ticket.renew.window.factor", "sasl.kerberos.ticket.renew.jitter"),
        *("sasl.kerberos.min.time.before.relogin", "sasl.kerberos.principal.to.local.rules"),
    )
)
"""Settings of Kafka that are taken and change nothing; a line at the start says so."""


def ineffective_names(written: Mapping[str, str]) -> list[str]:
    """One warning that names all settings of `INEFFECTIVE` that are written, if there are any."""
    names = [name for name in written if base_name(name) in INEFFECTIVE]
    return [f"These settings have no effect: {', '.join(names)}"] if names else []


def unknown_names(written: Mapping[str, str]) -> list[str]:
    """A warning for each setting that neither Kafka nor its plug-ins have."""
    return [
        unknown_name_warning(name)
        for name in written
        if base_name(name) not in BROKER
        and name not in (*PLUGIN_SETTINGS, ASSIGNMENT_INTERVAL_SETTING)
        and not name.startswith(PLUGIN_PREFIXES)
    ]


def unknown_name_warning(name: str) -> str:
    """The warning about an unknown setting, with the closest known name."""
    # Imported only for a wrong name: it would take milliseconds of every start.
    from difflib import get_close_matches

    close: Callable[..., list[str]] = get_close_matches
    meant = close(name, BROKER, n=1, cutoff=0.8)
    hint = f"; did you mean {meant[0]}?" if meant else ""
    return f"Unknown setting {name} has no effect{hint}"
