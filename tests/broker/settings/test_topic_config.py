import pytest

from odradek.broker.settings.definitions import TOPIC
from odradek.broker.settings.dynamic import DynamicSettings
from odradek.broker.settings.load import make_settings
from odradek.broker.settings.topic_config import (
    broker_values,
    ignored_format,
    topic_log_config,
    topic_values,
    validate_topic_config,
)
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.storage.log_config import LogConfig

SETTINGS = make_settings({})


def test_topic_without_overrides_on_a_broker_without_settings_has_the_defaults_of_a_log() -> None:
    assert topic_log_config(SETTINGS, None, {}) == LogConfig()


def test_topic_defaults_equal_those_of_a_broker_without_settings() -> None:
    for name, value in broker_values(SETTINGS).items():
        assert value == TOPIC[name].default, name


def test_override_precedes_the_broker_and_a_dynamic_setting_a_static_one() -> None:
    settings = make_settings({"log.segment.bytes": "1000", "log.retention.hours": "1"})
    dynamic = DynamicSettings({"log.segment.bytes": "2000"}, {})
    both = DynamicSettings({"log.segment.bytes": "2000"}, {"log.segment.bytes": "3000"})
    assert topic_log_config(settings, None, {}).segment_bytes == 1000
    assert topic_log_config(settings, dynamic, {}).segment_bytes == 2000
    assert topic_log_config(settings, both, {}).segment_bytes == 3000
    assert topic_log_config(settings, both, {"segment.bytes": "4000"}).segment_bytes == 4000
    assert topic_log_config(settings, both, {}).retention_ms == 3_600_000


OVERRIDES = {
    "segment.bytes": "101",
    "segment.ms": "102",
    "segment.jitter.ms": "103",
    "segment.index.bytes": "104",
    "index.interval.bytes": "105",
    "retention.ms": "106",
    "retention.bytes": "107",
    "file.delete.delay.ms": "108",
    "flush.messages": "109",
    "flush.ms": "110",
    "preallocate": "true",
    "cleanup.policy": "compact",
    "delete.retention.ms": "111",
    "min.cleanable.dirty.ratio": "0.25",
    "min.compaction.lag.ms": "112",
    "max.compaction.lag.ms": "113",
    "compression.type": "zstd",
    "compression.gzip.level": "7",
    "compression.lz4.level": "8",
    "compression.zstd.level": "6",
    "max.message.bytes": "114",
    "message.timestamp.type": "LogAppendTime",
    "message.timestamp.before.max.ms": "115",
    "message.timestamp.after.max.ms": "116",
    "message.downconversion.enable": "false",
    "min.insync.replicas": "2",
    "unclean.leader.election.enable": "true",
}


def test_every_override_reaches_the_log() -> None:
    settings = make_settings({"producer.id.expiration.ms": "117"})
    assert topic_log_config(settings, None, OVERRIDES) == LogConfig(
        segment_bytes=101,
        segment_ms=102,
        segment_jitter_ms=103,
        segment_index_bytes=104,
        index_interval_bytes=105,
        retention_ms=106,
        retention_bytes=107,
        file_delete_delay_ms=108,
        flush_messages=109,
        flush_ms=110,
        cleanup_delete=False,
        cleanup_compact=True,
        delete_retention_ms=111,
        min_cleanable_dirty_ratio=0.25,
        min_compaction_lag_ms=112,
        max_compaction_lag_ms=113,
        producer_id_expiration_ms=117,
        compression_type="zstd",
        compression_gzip_level=7,
        compression_lz4_level=8,
        compression_zstd_level=6,
        max_message_bytes=114,
        message_timestamp_type="LogAppendTime",
        message_timestamp_before_max_ms=115,
        message_timestamp_after_max_ms=116,
        min_insync_replicas=2,
    )


def test_older_timestamp_bound_applies_until_its_successors_are_set() -> None:
    config = topic_log_config(SETTINGS, None, {"message.timestamp.difference.max.ms": "5"})
    assert config.message_timestamp_before_max_ms == 5
    assert config.message_timestamp_after_max_ms == 5
    overrides = {"message.timestamp.difference.max.ms": "5", "message.timestamp.before.max.ms": "6"}
    config = topic_log_config(SETTINGS, None, overrides)
    assert config.message_timestamp_before_max_ms == 6
    assert config.message_timestamp_after_max_ms == 5


def test_invalid_stored_overrides_have_no_effect_on_a_log() -> None:
    overrides = {"segment.bytes": "x", "retention.ms": "5", "no.such.name": "1"}
    config = topic_log_config(SETTINGS, None, overrides)
    assert config.segment_bytes == LogConfig().segment_bytes
    assert config.retention_ms == 5


def test_message_format_is_fixed_for_every_broker_setting() -> None:
    settings = make_settings({"log.message.format.version": "0.10.0"})
    assert topic_values(settings, {})["message.format.version"] == "3.0-IV1"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"retention.ms": None, "segment.ms": None}, "topic configs: retention.ms,segment.ms"),
        ({"no.such.name": "1"}, "Unknown topic config name: no.such.name"),
        ({"retention.ms": "-2"}, "Invalid value -2 for configuration retention.ms: "),
        ({"cleanup.policy": "shred"}, "String must be one of: compact, delete"),
        ({"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"}, "conflict topic config"),
        ({"remote.storage.enable": "true"}, "Tiered Storage functionality is disabled"),
        ({"remote.log.copy.disable": "true"}, "ZooKeeper mode"),
        ({"remote.log.delete.on.disable": "true"}, "ZooKeeper mode"),
    ],
)
def test_invalid_overrides_are_refused(overrides: dict[str, str | None], message: str) -> None:
    with pytest.raises(BrokerError) as raised:
        validate_topic_config(overrides)
    assert raised.value.code is ErrorCode.INVALID_CONFIG
    assert message in str(raised.value.message)


def test_override_is_checked_against_the_settings_of_the_broker() -> None:
    settings = make_settings({"log.cleaner.max.compaction.lag.ms": "5"})
    validate_topic_config({"min.compaction.lag.ms": "6"})
    with pytest.raises(BrokerError, match="conflict topic config"):
        validate_topic_config({"min.compaction.lag.ms": "6"}, settings)


def test_valid_overrides_are_accepted() -> None:
    validate_topic_config({})
    validate_topic_config({"cleanup.policy": "compact,delete", "retention.ms": "-1"})


@pytest.mark.parametrize("version", ["0.8.2", "0.9.0", "0.10.0-IV1", "0.10.2"])
def test_older_format_of_records_is_ignored_with_a_warning(version: str) -> None:
    assert ignored_format({"message.format.version": version}, "t") == (
        f"Topic configuration message.format.version with value {version} is ignored for t: since "
        "3.0 records have one format (KIP-724)"
    )
    warning = ignored_format({"log.message.format.version": version, "message.format.version": "1"})
    assert warning is not None
    assert warning.startswith(
        f"Broker configuration log.message.format.version with value {version} is ignored"
    )


@pytest.mark.parametrize("version", ["0.11.0", "0.11.0-IV2", "1.0", "2.8-IV1", "3.0-IV1", "3.9"])
def test_newer_format_of_records_gets_no_warning(version: str) -> None:
    assert ignored_format({"message.format.version": version}, "t") is None
    assert ignored_format({"log.message.format.version": version}) is None
    assert ignored_format({}) is None
