"""What server.properties, and what was changed since, make of one broker.

`load_settings` reads a file, `make_settings` turns names and texts into checked values.  Each
setting of Kafka is an attribute, with `_` for its dots; those that the broker uses are declared
below with their types.  A few are more than their own text: `log_retention_ms` already counts in
minutes and hours, `listeners` are `Listener`s.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from odradek.broker.settings import checks
from odradek.broker.settings.definitions.tables import BROKER, base_name
from odradek.broker.settings.dynamic import NO_DYNAMIC_SETTINGS, DynamicSettings, overlaid, usable
from odradek.broker.settings.listeners import (
    Listener,
    parse_counts,
    parse_listeners,
    parse_protocol_map,
)
from odradek.broker.settings.properties import PropertiesError, parse_properties
from odradek.broker.settings.rules import Value
from odradek.broker.settings.types import LIST, LONG_MAX, InvalidValueError, parse_value, split_list
from odradek.broker.settings.types import SettingsError as SettingsError

WITHOUT_FILE: Final = MappingProxyType(
    {"listeners": "PLAINTEXT://127.0.0.1:9092", "log.dirs": "data"}
)
"""What a broker without a settings file starts with.

Differs from Kafka, whose defaults are every interface and a folder under /tmp: a broker started
for a trial is not open to the network, and its records survive a restart of the machine.
"""
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000


class BrokerSettings:
    """The settings of one broker; never changed, but replaced as a whole (see `dynamic`)."""

    static: Mapping[str, str]
    """Names and texts of the file and the command line, unknown ones too."""
    dynamic: DynamicSettings
    """What was changed while running, by level."""
    written: Mapping[str, str]
    """Names and texts in force: the static ones with the dynamic ones laid over."""
    raw: Mapping[str, Value]
    """The value of every known setting; None where it is neither set nor has a default."""

    broker_id: int
    """-1: to be drawn (KIP-1 numbers above `reserved_broker_max_id`)."""
    broker_id_generation_enable: bool
    reserved_broker_max_id: int
    broker_rack: str | None

    listeners: tuple[Listener, ...]
    advertised_listeners: tuple[Listener, ...]
    """The listeners themselves where none are set; a port 0 and an empty host are filled in by
    whoever bound them."""
    listener_security_protocol_map: Mapping[str, str]
    inter_broker_listener_name: str
    control_plane_listener_name: str | None

    num_network_threads: int
    num_io_threads: int
    background_threads: int
    queued_max_requests: int
    queued_max_request_bytes: int
    socket_send_buffer_bytes: int
    socket_receive_buffer_bytes: int
    socket_request_max_bytes: int
    socket_listen_backlog_size: int
    socket_connection_setup_timeout_ms: int
    socket_connection_setup_timeout_max_ms: int
    request_timeout_ms: int
    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: Mapping[str, int]
    max_connection_creation_rate: int
    connections_max_idle_ms: int
    connections_max_reauth_ms: int
    connection_failed_authentication_delay_ms: int
    max_incremental_fetch_session_cache_slots: int
    max_request_partition_size_limit: int
    fetch_max_bytes: int
    message_max_bytes: int
    compression_type: str
    auto_create_topics_enable: bool
    delete_topic_enable: bool
    controlled_shutdown_enable: bool
    controlled_shutdown_max_retries: int
    controlled_shutdown_retry_backoff_ms: int

    log_dirs: tuple[str, ...]
    """Absolute, none twice; at least one."""
    num_partitions: int
    default_replication_factor: int
    num_recovery_threads_per_data_dir: int
    log_segment_bytes: int
    log_roll_ms: int
    """log.roll.hours counted in."""
    log_roll_jitter_ms: int
    """log.roll.jitter.hours counted in."""
    log_retention_ms: int
    """-1: for ever; log.retention.minutes and .hours counted in."""
    log_retention_bytes: int
    log_retention_check_interval_ms: int
    log_initial_task_delay_ms: int
    log_cleanup_policy: tuple[str, ...]
    log_segment_delete_delay_ms: int
    log_index_size_max_bytes: int
    log_index_interval_bytes: int
    log_flush_interval_messages: int
    log_flush_interval_ms: int
    """log.flush.scheduler.interval.ms where not set itself."""
    log_flush_scheduler_interval_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    log_preallocate: bool
    log_message_timestamp_type: str
    log_message_timestamp_before_max_ms: int
    """log.message.timestamp.difference.max.ms where not bounded itself."""
    log_message_timestamp_after_max_ms: int
    """log.message.timestamp.difference.max.ms where not bounded itself."""
    log_message_downconversion_enable: bool
    log_cleaner_enable: bool
    log_cleaner_threads: int
    log_cleaner_io_max_bytes_per_second: float
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_io_buffer_size: int
    log_cleaner_io_buffer_load_factor: float
    log_cleaner_backoff_ms: int
    log_cleaner_min_cleanable_ratio: float
    log_cleaner_delete_retention_ms: int
    log_cleaner_min_compaction_lag_ms: int
    log_cleaner_max_compaction_lag_ms: int

    min_insync_replicas: int
    unclean_leader_election_enable: bool
    replica_lag_time_max_ms: int
    replica_socket_timeout_ms: int
    replica_socket_receive_buffer_bytes: int
    replica_fetch_max_bytes: int
    replica_fetch_wait_max_ms: int
    replica_fetch_min_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_backoff_ms: int
    replica_high_watermark_checkpoint_interval_ms: int
    replica_selector_class: str | None
    num_replica_fetchers: int
    num_replica_alter_log_dirs_threads: int
    """As many as folders where not set."""
    controller_socket_timeout_ms: int
    auto_leader_rebalance_enable: bool
    leader_imbalance_per_broker_percentage: int
    leader_imbalance_check_interval_seconds: int
    inter_broker_protocol_version: str

    zookeeper_connect: str | None
    """None: coordination is embedded in this broker."""
    # Differs from Kafka: zookeeper.connect may be missing; a single node then needs no ZooKeeper.
    zookeeper_session_timeout_ms: int
    zookeeper_connection_timeout_ms: int
    """The session timeout where not set."""
    zookeeper_max_in_flight_requests: int
    zookeeper_set_acl: bool

    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    group_max_size: int
    group_coordinator_rebalance_protocols: tuple[str, ...]
    group_consumer_session_timeout_ms: int
    group_consumer_min_session_timeout_ms: int
    group_consumer_max_session_timeout_ms: int
    group_consumer_heartbeat_interval_ms: int
    group_consumer_min_heartbeat_interval_ms: int
    group_consumer_max_heartbeat_interval_ms: int
    group_consumer_max_size: int
    group_consumer_assignors: tuple[str, ...]
    group_consumer_migration_policy: str
    offset_metadata_max_bytes: int
    offsets_load_buffer_size: int
    offsets_topic_replication_factor: int
    offsets_topic_num_partitions: int
    offsets_topic_segment_bytes: int
    offsets_topic_compression_codec: int
    offsets_retention_minutes: int
    offsets_retention_check_interval_ms: int
    offsets_commit_timeout_ms: int
    offsets_commit_required_acks: int

    transaction_max_timeout_ms: int
    transactional_id_expiration_ms: int
    transaction_state_log_replication_factor: int
    transaction_state_log_num_partitions: int
    transaction_state_log_min_isr: int
    transaction_state_log_segment_bytes: int
    transaction_state_log_load_buffer_size: int
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_partition_verification_enable: bool
    producer_id_expiration_ms: int
    producer_id_expiration_check_interval_ms: int

    quota_window_num: int
    quota_window_size_seconds: int
    replication_quota_window_num: int
    replication_quota_window_size_seconds: int
    controller_quota_window_num: int
    controller_quota_window_size_seconds: int

    sasl_enabled_mechanisms: tuple[str, ...]
    sasl_mechanism_inter_broker_protocol: str
    sasl_server_max_receive_size: int
    delegation_token_secret_key: str | None
    delegation_token_max_lifetime_ms: int
    delegation_token_expiry_time_ms: int
    delegation_token_expiry_check_interval_ms: int

    warnings: tuple[str, ...]
    """A line for each name that nobody knows (`load_settings`), or for each dynamic setting that
    cannot be used (`with_dynamic`)."""

    def __init__(self, values: Mapping[str, Value], attributes: Mapping[str, Any]) -> None:
        own = vars(self)
        for name, value in values.items():
            own[name.replace(".", "_")] = value
        own.update(attributes)
        self.raw = MappingProxyType(dict(values))

    def of_listener(self, listener_name: str, name: str) -> Value:
        """A setting as it holds for one listener: with its prefix, otherwise the bare one.

        listener_name  in any letter case
        raises         KeyError for a name that is no setting, InvalidValueError
        """
        prefixed = f"listener.name.{listener_name.lower()}.{name}"
        if prefixed in self.written:
            return parse_value(BROKER[base_name(prefixed)], self.written[prefixed])
        return self.raw[name]


def load_settings(path: str | None, overrides: Sequence[str]) -> BrokerSettings:
    """Settings from a file, with the command line's `key=value` on top.

    path    a .properties file; None: `WITHOUT_FILE` and defaults
    raises  SettingsError, whose text is one line
    """
    written: dict[str, str] = {}
    if path is None:
        written.update(WITHOUT_FILE)
    else:
        try:
            with open(path, "rb") as file:
                written = parse_properties(file.read())
        except (OSError, PropertiesError) as error:
            raise SettingsError(f"Cannot read the settings in {path}: {error}") from error
    for override in overrides:
        name, equals, text = override.partition("=")
        if not equals or not name.strip():
            raise SettingsError(f"Invalid override {override}: Expected key=value")
        written[name.strip()] = text
        if path is None and name.strip() == "log.dir":
            del written["log.dirs"]
    settings = make_settings(written)
    settings.warnings = tuple(checks.unknown_names(written))
    return settings


def default_values() -> dict[str, Value]:
    """The value of every setting that is not written anywhere."""
    return {
        name: split_list(definition.default)
        if definition.type is LIST and isinstance(definition.default, str)
        else definition.default
        for name, definition in BROKER.items()
    }


def make_settings(
    static: Mapping[str, str], dynamic: DynamicSettings = NO_DYNAMIC_SETTINGS
) -> BrokerSettings:
    """Check and complete what is written.

    dynamic  must be usable, see `with_dynamic`
    raises   InvalidValueError
    """
    static = with_node_id(static)
    written = overlaid(static, dynamic)
    values = default_values()
    for name, text in written.items():
        definition = BROKER.get(name)
        if definition is not None:
            values[name] = parse_value(definition, text)
        elif (definition := BROKER.get(base_name(name))) is not None:
            parse_value(definition._replace(name=name), text)
    attributes = effective_values(written, values)
    attributes["static"] = MappingProxyType(static)
    attributes["dynamic"] = dynamic
    attributes["written"] = MappingProxyType(written)
    attributes["warnings"] = ()
    settings = BrokerSettings(values, attributes)
    checks.check_settings(settings)
    return settings


def with_dynamic(settings: BrokerSettings, dynamic: DynamicSettings) -> BrokerSettings:
    """The same static settings under other dynamic ones, as they were stored.

    dynamic  all that is stored, not what an earlier `BrokerSettings.dynamic` has kept of it

    A stored setting that cannot be used (by hand, by a later version) is left out and warned of;
    where settings of the two levels exclude each other, a whole level is.  A running broker goes
    on with what it can (Kafka: DynamicBrokerConfig.fromPersistentProps).
    """
    default, default_warnings = usable(dynamic.default, per_broker=False)
    broker, broker_warnings = usable(dynamic.broker, per_broker=True)
    warnings = [*default_warnings, *broker_warnings]
    for tried in (
        DynamicSettings(default, broker),
        DynamicSettings({}, broker),
        DynamicSettings(default, {}),
    ):
        try:
            changed = make_settings(settings.static, tried)
        except InvalidValueError as error:
            warnings.append(f"Dynamic settings are left out: {error}")
        else:
            break
    else:
        changed = make_settings(settings.static)
    changed.warnings = tuple(warnings)
    return changed


def with_node_id(written: Mapping[str, str]) -> dict[str, str]:
    """`broker.id` and `node.id` say the same: either stands for both (KIP-500)."""
    completed = dict(written)
    if "broker.id" in completed:
        completed.setdefault("node.id", completed["broker.id"])
    elif "node.id" in completed:
        completed["broker.id"] = completed["node.id"]
    return completed


def effective_values(written: Mapping[str, str], raw: Mapping[str, Value]) -> dict[str, Any]:
    """Attributes that are more than the text of one setting.

    raises  InvalidValueError
    """
    values: dict[str, Any] = dict(raw)
    protocols = parse_protocol_map(
        "listener.security.protocol.map", values["listener.security.protocol.map"]
    )
    listeners = parse_listeners("listeners", values["listeners"], protocols, ports_differ=True)
    advertised = values["advertised.listeners"]
    folders = values["log.dir"] if values["log.dirs"] is None else values["log.dirs"]
    log_dirs = tuple(os.path.abspath(folder) for folder in split_list(folders) if folder)
    alter_threads = values["num.replica.alter.log.dirs.threads"]
    connection_timeout_ms = values["zookeeper.connection.timeout.ms"]
    return {
        "listener_security_protocol_map": protocols,
        "listeners": listeners,
        "advertised_listeners": listeners
        if advertised is None
        else parse_listeners("advertised.listeners", advertised, protocols, ports_differ=False),
        "inter_broker_listener_name": inter_broker_listener(written, values, protocols),
        "max_connections_per_ip_overrides": parse_counts(
            "max.connections.per.ip.overrides", values["max.connections.per.ip.overrides"]
        ),
        "log_dirs": log_dirs,
        "num_replica_alter_log_dirs_threads": len(log_dirs)
        if alter_threads is None
        else alter_threads,
        "zookeeper_connect": values["zookeeper.connect"] or None,
        "zookeeper_connection_timeout_ms": values["zookeeper.session.timeout.ms"]
        if connection_timeout_ms is None
        else connection_timeout_ms,
        **log_times(values),
    }


def log_times(values: Mapping[str, Any]) -> dict[str, int]:
    """Times of logs that several settings may say, in milliseconds."""
    retention_ms = values["log.retention.ms"]
    if retention_ms is None and values["log.retention.minutes"] is not None:
        retention_ms = values["log.retention.minutes"] * MINUTE_MS
    if retention_ms is None:
        retention_ms = values["log.retention.hours"] * HOUR_MS
    roll_ms, jitter_ms = values["log.roll.ms"], values["log.roll.jitter.ms"]
    flush_ms = values["log.flush.interval.ms"]
    difference_ms = values["log.message.timestamp.difference.max.ms"]
    before_ms = values["log.message.timestamp.before.max.ms"]
    after_ms = values["log.message.timestamp.after.max.ms"]
    return {
        "log_retention_ms": -1 if retention_ms < 0 else retention_ms,
        "log_roll_ms": values["log.roll.hours"] * HOUR_MS if roll_ms is None else roll_ms,
        "log_roll_jitter_ms": values["log.roll.jitter.hours"] * HOUR_MS
        if jitter_ms is None
        else jitter_ms,
        "log_flush_interval_ms": values["log.flush.scheduler.interval.ms"]
        if flush_ms is None
        else flush_ms,
        # The older setting goes on to count while its two successors stand at their default.
        "log_message_timestamp_before_max_ms": difference_ms
        if before_ms == LONG_MAX
        else before_ms,
        "log_message_timestamp_after_max_ms": difference_ms if after_ms == LONG_MAX else after_ms,
    }


def inter_broker_listener(
    written: Mapping[str, str], values: Mapping[str, Any], protocols: Mapping[str, str]
) -> str:
    """The listener between brokers: named, or the one named as its protocol.

    raises  InvalidValueError
    """
    key = "inter.broker.listener.name"
    name = values[key]
    if name is None:
        return str(values["security.inter.broker.protocol"])
    if "security.inter.broker.protocol" in written:
        allowed = "It may not be set together with security.inter.broker.protocol"
        raise InvalidValueError(key, name, allowed)
    if name.upper() not in protocols:
        allowed = "Expected a name out of listener.security.protocol.map"
        raise InvalidValueError(key, name, allowed)
    return str(name.upper())
