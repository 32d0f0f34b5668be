"""The settings of one broker as typed attributes; `load` makes them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from odradek.broker.settings.definitions import BROKER, base_name
from odradek.broker.settings.dynamic import DynamicSettings
from odradek.broker.settings.listeners import Listener
from odradek.broker.settings.quorum_config import QuorumConfig
from odradek.broker.settings.rules import Value
from odradek.broker.settings.types import parse_value


class BrokerSettings:
    """The settings of one broker; never changed, but replaced as a whole (see `CurrentSettings`).

    A setting that the broker reads is an attribute, with `_` for its dots.  The constructor fills
    them in from a mapping, which a type checker cannot see: the suite compares them with the types
    of the settings, and finds declarations that nothing reads.  All settings are checked at the
    start and shown by DescribeConfigs; `raw` has them.

    Some attributes combine several settings: `log_retention_ms` includes minutes and hours,
    `listeners` are `Listener`s.
    """

    static: Mapping[str, str]
    """Names and texts of the file and the command line, unknown ones too."""
    dynamic: DynamicSettings
    """Settings that were changed while a broker was running, by level."""
    written: Mapping[str, str]
    """Names and texts in force: a dynamic setting replaces a static one."""
    raw: Mapping[str, Value]
    """The value of every known setting; None where it is neither set nor has a default."""

    broker_id: int
    """-1: the broker takes a number above `reserved_broker_max_id` at its first start."""
    broker_id_generation_enable: bool
    reserved_broker_max_id: int
    broker_rack: str | None

    quorum: QuorumConfig | None
    """What process.roles and the settings of the quorum ask for; None without process.roles."""
    listeners: tuple[Listener, ...]
    """The listeners for clients and brokers; those of a controller are in `quorum`."""
    advertised_listeners: tuple[Listener, ...]
    """`listeners` where not set.  An empty host and port 0 are replaced once the listeners are
    bound."""
    inter_broker_listener_name: str
    control_plane_listener_name: str | None

    queued_max_request_bytes: int
    socket_send_buffer_bytes: int
    socket_receive_buffer_bytes: int
    socket_request_max_bytes: int
    socket_listen_backlog_size: int
    socket_connection_setup_timeout_ms: int
    request_timeout_ms: int
    max_connections: int
    max_connection_creation_rate: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: Mapping[str, int]
    connections_max_idle_ms: int
    connection_failed_authentication_delay_ms: int
    sasl_server_max_receive_size: int
    max_incremental_fetch_session_cache_slots: int
    max_request_partition_size_limit: int
    fetch_max_bytes: int
    delegation_token_secret_key: str | None
    """None or empty: there are no delegation tokens, unless the former name has a value."""
    delegation_token_master_key: str | None
    delegation_token_max_lifetime_ms: int
    delegation_token_expiry_time_ms: int
    delegation_token_expiry_check_interval_ms: int
    authorizer_class_name: str
    """Empty: every request is permitted."""
    auto_create_topics_enable: bool
    delete_topic_enable: bool
    controlled_shutdown_enable: bool
    controlled_shutdown_max_retries: int
    controlled_shutdown_retry_backoff_ms: int

    log_dirs: tuple[str, ...]
    """Absolute, none twice; at least one."""
    num_partitions: int
    default_replication_factor: int
    log_roll_ms: int
    """Taken from log.roll.hours when log.roll.ms is not set."""
    log_roll_jitter_ms: int
    """From log.roll.jitter.hours where not set itself."""
    log_retention_ms: int
    """-1: for ever.  From log.retention.minutes or .hours where not set itself."""
    log_retention_bytes: int
    log_retention_check_interval_ms: int
    log_cleanup_policy: tuple[str, ...]
    log_segment_delete_delay_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_cleaner_enable: bool
    log_cleaner_threads: int
    log_cleaner_io_max_bytes_per_second: float
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_io_buffer_load_factor: float
    log_cleaner_backoff_ms: int
    log_cleaner_min_compaction_lag_ms: int
    log_cleaner_max_compaction_lag_ms: int

    min_insync_replicas: int
    unclean_leader_election_enable: bool
    replica_lag_time_max_ms: int
    replica_socket_timeout_ms: int
    replica_fetch_max_bytes: int
    replica_fetch_wait_max_ms: int
    replica_fetch_min_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_backoff_ms: int
    replica_high_watermark_checkpoint_interval_ms: int
    replica_selector_class: str | None
    num_replica_fetchers: int
    controller_socket_timeout_ms: int
    auto_leader_rebalance_enable: bool
    leader_imbalance_per_broker_percentage: int
    leader_imbalance_check_interval_seconds: int

    zookeeper_connect: str | None
    """None: coordination is embedded in this broker.  With process.roles, the address of the node
    that coordinates."""
    # Differs from Kafka: zookeeper.connect may be missing; a single node then needs no ZooKeeper.
    zookeeper_session_timeout_ms: int
    """broker.session.timeout.ms with process.roles, where not set."""
    zookeeper_connection_timeout_ms: int
    """The session timeout where not set; initial.broker.registration.timeout.ms with
    process.roles."""
    metadata_log_dir: str
    """Absolute; where the embedded tree is stored: the first of `log_dirs`, or with process.roles
    what metadata.log.dir says, which need not be one of them."""
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
    offsets_topic_replication_factor: int
    offsets_topic_num_partitions: int
    offsets_topic_segment_bytes: int
    offsets_topic_compression_codec: int
    offsets_retention_minutes: int
    offsets_retention_check_interval_ms: int
    offsets_commit_timeout_ms: int

    transaction_max_timeout_ms: int
    transactional_id_expiration_ms: int
    transaction_state_log_replication_factor: int
    transaction_state_log_num_partitions: int
    transaction_state_log_min_isr: int
    transaction_state_log_segment_bytes: int
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_partition_verification_enable: bool
    producer_id_expiration_ms: int
    producer_id_expiration_check_interval_ms: int

    quota_window_num: int
    quota_window_size_seconds: int
    controller_quota_window_num: int
    controller_quota_window_size_seconds: int
    replication_quota_window_num: int
    replication_quota_window_size_seconds: int

    warnings: tuple[str, ...]
    """A line for each unknown name (`load_settings`), or for each dynamic setting that cannot be
    used (`with_dynamic`)."""

    def __init__(self, values: Mapping[str, Value], attributes: Mapping[str, Any]) -> None:
        own = vars(self)
        for name, value in values.items():
            own[name.replace(".", "_")] = value
        own.update(attributes)
        self.raw = MappingProxyType(dict(values))

    @property
    def is_broker(self) -> bool:
        """Whether the node serves clients; it does not with process.roles=controller."""
        return self.quorum is None or self.quorum.is_broker

    def of_listener(self, listener_name: str, name: str) -> Value:
        """The value of a setting for one listener: with the listener's prefix, else without.

        listener_name  in any letter case
        raises         KeyError for a name that is not a setting, InvalidValueError
        """
        prefixed = f"listener.name.{listener_name.lower()}.{name}"
        if prefixed in self.written:
            return parse_value(BROKER[base_name(prefixed)], self.written[prefixed])
        return self.raw[name]

    def of_mechanism(self, listener_name: str, mechanism: str, name: str) -> Value:
        """The value of a setting for one SASL mechanism of a listener: with the prefix of both,
        else that of the listener.

        raises  KeyError for a name that is not a setting, InvalidValueError
        """
        prefixed = f"{mechanism.lower()}.{name}"
        if f"listener.name.{listener_name.lower()}.{prefixed}" in self.written:
            definition = BROKER[name]._replace(name=f"listener.name.{listener_name}.{prefixed}")
            text = self.written[f"listener.name.{listener_name.lower()}.{prefixed}"]
            return parse_value(definition, text)
        return self.of_listener(listener_name, name)


class CurrentSettings:
    """`value` is replaced as a whole when a dynamic setting changes (KIP-226).

    A part that keeps this object sees the change at its next look; a part that keeps the value
    has the settings of the start.
    """

    __slots__ = ("value",)

    def __init__(self, value: BrokerSettings) -> None:
        self.value = value
