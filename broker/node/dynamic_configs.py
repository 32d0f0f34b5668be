"""Applies changes of topics' and brokers' settings while the broker runs.

Source: Kafka's TopicConfigHandler, BrokerConfigHandler, DynamicBrokerConfig.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from odradek.broker.node.lazy_compaction import LazyCompaction
from odradek.broker.replication.partitions import Partitions
from odradek.broker.settings.broker_settings import BrokerSettings, CurrentSettings
from odradek.broker.settings.dynamic import DEFAULT_ENTITY, DynamicSettings
from odradek.broker.settings.load import with_dynamic
from odradek.broker.settings.topic_config import ignored_format, topic_log_config
from odradek.controller.image.metadata_cache import MetadataCache
from odradek.controller.znodes.dynamic_configs import BROKERS, TOPICS
from odradek.storage.log_config import LogConfig

logger = logging.getLogger("odradek")


class DynamicConfigs:
    """The listener of the controller; the image has a change before it is reported here."""

    def __init__(
        self,
        *,
        broker_id: int,
        settings: CurrentSettings,
        metadata: MetadataCache,
        partitions: Partitions,
        compaction: LazyCompaction,
    ) -> None:
        self._broker_id = broker_id
        self._settings = settings
        self._metadata = metadata
        self._partitions = partitions
        self._compaction = compaction
        self._observers: list[Callable[[BrokerSettings], None]] = []
        self._newest: tuple[BrokerSettings, Mapping[str, str], LogConfig] | None = None
        """What the newest result of `log_config` was made of, and the result."""
        self._entity_observers: dict[str, list[Callable[[str, Mapping[str, str]], None]]] = {}

    def observe(self, observer: Callable[[BrokerSettings], None]) -> None:
        """Call `observer` with the broker's settings after each change from now on."""
        self._observers.append(observer)

    def observe_entities(
        self, entity_type: str, observer: Callable[[str, Mapping[str, str]], None]
    ) -> None:
        """Call `observer` with each entity of a type that has a config, and after each change.

        observer  takes the entity as in its path (sanitized, `<default>`, `user/clients/client`),
                  and its config, which is empty when there is none any more
        """
        self._entity_observers.setdefault(entity_type, []).append(observer)

    def log_config(self, topic: str) -> LogConfig:
        """The settings of a topic's logs: its overrides over the broker's settings.

        cost  0.2 ms, next to nothing for the same topic again
        """
        settings = self._settings.value
        overrides = self._metadata.image.topic_config(topic)
        newest = self._newest
        if newest is not None and newest[0] is settings and newest[1] is overrides:
            return newest[2]
        config = topic_log_config(settings, None, overrides)
        warning = ignored_format(overrides, topic)
        if warning is not None:
            logger.warning("%s", warning)
        self._newest = settings, overrides, config
        return config

    def on_config_changed(self, entity_type: str, entity: str, config: Mapping[str, str]) -> None:
        """Apply the overrides that a topic or a broker has now."""
        if entity_type == TOPICS:
            for partition in self._partitions.topic(entity).values():
                partition.log.config = self.log_config(entity)
        elif entity_type == BROKERS:
            self._apply_broker_configs()
        for observer in self._entity_observers.get(entity_type, ()):
            observer(entity, config)

    def _apply_broker_configs(self) -> None:
        stored = self._metadata.image.broker_configs
        dynamic = DynamicSettings(
            stored.get(DEFAULT_ENTITY, {}), stored.get(str(self._broker_id), {})
        )
        self._settings.value = with_dynamic(self._settings.value, dynamic)
        for warning in self._settings.value.warnings:
            logger.warning("%s", warning)
        for partition in self._partitions.all():
            partition.log.config = self.log_config(partition.topic)
        self._compaction.on_settings_changed()
        for observer in self._observers:
            observer(self._settings.value)

    def on_warning(self, text: str) -> None:
        """Log what the controller reports to the operator."""
        logger.warning("%s", text)


def with_warnings(
    entity_type: str, apply: Callable[[str, Mapping[str, str]], Iterable[str]]
) -> Callable[[str, Mapping[str, str]], None]:
    """An observer of entities that logs what `apply` could not use."""

    def observe(entity: str, config: Mapping[str, str]) -> None:
        for warning in apply(entity, config):
            logger.warning("config of %s %s: %s", entity_type, entity, warning)

    return observe
