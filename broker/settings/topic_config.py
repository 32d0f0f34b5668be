"""The settings of a topic: its overrides, else the broker's settings.

The precedence among a broker's settings is that of `dynamic` and `synonyms`.
Source: Kafka's LogConfig and KafkaConfig.extractLogConfigMap.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.settings.definitions import TOPIC
from odradek.broker.settings.dynamic import DynamicSettings
from odradek.broker.settings.load import make_settings, with_dynamic
from odradek.broker.settings.rules import Value
from odradek.broker.settings.synonyms import TOPIC_SYNONYMS
from odradek.broker.settings.types import LONG_MAX, InvalidValueError, SettingsError, parse_value
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.storage.log_config import LogConfig

FORMAT_VERSION: Final = "message.format.version"


FIRST_FORMAT_2: Final = (0, 11)
"""The release from which on Kafka stores records as they are stored here."""


def ignored_format(written: Mapping[str, str], topic: str | None = None) -> str | None:
    """The warning about a format of records that is asked for and older than the only one; None
    when none is asked for, or the version is not older.

    written  the overrides of `topic`, or the settings of a broker
    Source: Kafka's LogConfig.MessageFormatVersion.
    """
    setting = FORMAT_VERSION if topic is not None else f"log.{FORMAT_VERSION}"
    version = written.get(setting)
    if version is None:
        return None
    numbers = re.findall(r"[0-9]+", version.partition("-")[0])[:2]
    if tuple(map(int, numbers)) >= FIRST_FORMAT_2:
        return None
    whose = "Broker" if topic is None else "Topic"
    place = "" if topic is None else f" for {topic}"
    return (
        f"{whose} configuration {setting} with value {version} is ignored{place}: since 3.0 "
        "records have one format (KIP-724)"
    )


def broker_values(settings: BrokerSettings) -> dict[str, Value]:
    """The value of every setting of a topic without overrides."""
    values: dict[str, Value] = {}
    for name, definition in TOPIC.items():
        synonym = TOPIC_SYNONYMS.get(name)
        # The format of records has been fixed since 3.0 (KIP-724), whatever the broker says.
        if synonym is not None and name != FORMAT_VERSION:
            values[name] = getattr(settings, synonym.replace(".", "_"))
        else:
            values[name] = definition.default
    return values


def topic_values(settings: BrokerSettings, overrides: Mapping[str, str]) -> dict[str, Value]:
    """The value of every setting of a topic; unknown names are left out.

    raises  InvalidValueError
    """
    values = broker_values(settings)
    for name, text in overrides.items():
        definition = TOPIC.get(name)
        if definition is not None:
            values[name] = parse_value(definition, text)
    return values


def check_overrides(settings: BrokerSettings, overrides: Mapping[str, str]) -> None:
    """Check a topic's overrides against their rules and against one another.

    raises  BrokerError for an unknown name and for contradictory lags; otherwise SettingsError,
            whose text AlterConfigs extends and CreateTopics does not
    """
    for name in overrides:
        if name not in TOPIC:
            raise BrokerError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
    values = topic_values(settings, overrides)
    low, high = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    assert isinstance(low, int), "a lag is a number"
    assert isinstance(high, int), "a lag is a number"
    if low > high:
        raise BrokerError(
            ErrorCode.INVALID_CONFIG,
            f"conflict topic config setting min.compaction.lag.ms ({low}) > "
            f"max.compaction.lag.ms ({high})",
        )
    if values["remote.log.delete.on.disable"] or values["remote.log.copy.disable"]:
        raise BrokerError(
            ErrorCode.INVALID_CONFIG,
            "remote.log.delete.on.disable and remote.log.copy.disable cannot be set in "
            "ZooKeeper mode.",
        )
    if values["remote.storage.enable"]:
        raise SettingsError(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )


def validate_topic_config(
    overrides: Mapping[str, str | None], settings: BrokerSettings | None = None
) -> None:
    """Check the overrides of a new topic.

    settings  the broker's, against which overrides are checked; None: Kafka's defaults
    raises    BrokerError(INVALID_CONFIG)
    """
    texts: dict[str, str] = {}
    missing: list[str] = []
    for name, text in overrides.items():
        if text is None:
            missing.append(name)
        else:
            texts[name] = text
    if missing:
        message = f"Null value not supported for topic configs: {','.join(missing)}"
        raise BrokerError(ErrorCode.INVALID_CONFIG, message)
    try:
        check_overrides(make_settings({}) if settings is None else settings, texts)
    except SettingsError as error:
        raise BrokerError(ErrorCode.INVALID_CONFIG, str(error)) from error


def topic_log_config(
    settings: BrokerSettings, dynamic: DynamicSettings | None, overrides: Mapping[str, str]
) -> LogConfig:
    """The settings of a topic's logs.

    dynamic    replaces the dynamic settings of the broker; None: keeps them
    overrides  as stored; unknown names and invalid texts have no effect, so that a broker opens its
               logs whatever was written into the coordination service
    """
    if dynamic is not None and dynamic != settings.dynamic:
        settings = with_dynamic(settings, dynamic)
    values: dict[str, Any] = broker_values(settings)
    for name, text in overrides.items():
        definition = TOPIC.get(name)
        if definition is not None:
            try:
                values[name] = parse_value(definition, text)
            except InvalidValueError:
                continue
    return log_config(values, settings.producer_id_expiration_ms)


def log_config(values: Mapping[str, Any], producer_id_expiration_ms: int) -> LogConfig:
    policy = values["cleanup.policy"]
    difference_ms = values["message.timestamp.difference.max.ms"]
    before_ms = values["message.timestamp.before.max.ms"]
    after_ms = values["message.timestamp.after.max.ms"]
    return LogConfig(
        segment_bytes=values["segment.bytes"],
        segment_ms=values["segment.ms"],
        segment_jitter_ms=values["segment.jitter.ms"],
        segment_index_bytes=values["segment.index.bytes"],
        index_interval_bytes=values["index.interval.bytes"],
        retention_ms=values["retention.ms"],
        retention_bytes=values["retention.bytes"],
        file_delete_delay_ms=values["file.delete.delay.ms"],
        flush_messages=values["flush.messages"],
        flush_ms=values["flush.ms"],
        cleanup_delete="delete" in policy,
        cleanup_compact="compact" in policy,
        delete_retention_ms=values["delete.retention.ms"],
        min_cleanable_dirty_ratio=values["min.cleanable.dirty.ratio"],
        min_compaction_lag_ms=values["min.compaction.lag.ms"],
        max_compaction_lag_ms=values["max.compaction.lag.ms"],
        producer_id_expiration_ms=producer_id_expiration_ms,
        compression_type=values["compression.type"],
        compression_gzip_level=values["compression.gzip.level"],
        compression_lz4_level=values["compression.lz4.level"],
        compression_zstd_level=values["compression.zstd.level"],
        max_message_bytes=values["max.message.bytes"],
        message_timestamp_type=values["message.timestamp.type"],
        # The older setting has effect while its two successors have their defaults.
        message_timestamp_before_max_ms=difference_ms if before_ms == LONG_MAX else before_ms,
        message_timestamp_after_max_ms=difference_ms if after_ms == LONG_MAX else after_ms,
        min_insync_replicas=values["min.insync.replicas"],
    )
