"""This broker's newest image of the cluster; made before the parts that write it and read it.

Source: Kafka's MetadataCache.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

from odradek.controller.image.control_requests import (
    ControlRequest,
    UpdateMetadata,
    apply_update_metadata,
    deleted_topics,
)
from odradek.controller.image.image import Image

DELETED_MAX: Final = 1_000


class MetadataCache:
    """`image` is immutable and replaced as a whole, by the methods of this class; keep it for as
    long as one response takes."""

    __slots__ = ("_deleted", "image")

    def __init__(self) -> None:
        self.image = Image()
        self._deleted: dict[str, None] = {}
        """Topics that were removed from the image and may have been added again, oldest first."""

    def was_deleted(self, topic: str) -> bool:
        """Whether the topic was removed from the image and not added again; of the last
        `DELETED_MAX` that were removed."""
        return topic in self._deleted and topic not in self.image.topics

    def set_cluster_id(self, cluster_id: str) -> None:
        """The id of the cluster was found."""
        self.image = self.image._replace(cluster_id=cluster_id)

    def set_topic_config(self, topic: str, config: Mapping[str, str]) -> None:
        """The overrides of a topic were read."""
        self.image = self.image.with_topic_configs({topic: config})

    def set_broker_config(self, broker: str, config: Mapping[str, str]) -> None:
        """The dynamic configs of a broker, or of `<default>`, were read."""
        self.image = self.image.with_broker_config(broker, config)

    def apply(
        self,
        request: ControlRequest,
        topic_configs: Mapping[str, Mapping[str, str]],
        *,
        removes_topics: bool,
    ) -> None:
        """Replace the image once, with everything that a control request changes.

        topic_configs   overrides of topics that were read with the request
        removes_topics  all topics that are known are removed before
        """
        image = former = self.image
        if removes_topics:
            image = image._replace(topics={}, topic_names={}, topic_configs={})
        if topic_configs:
            image = image.with_topic_configs(topic_configs)
        if isinstance(request, UpdateMetadata):
            image = apply_update_metadata(image, request)
        elif request.controller_epoch > image.controller_epoch:
            image = image._replace(
                controller_id=request.controller_id, controller_epoch=request.controller_epoch
            )
        self.image = image
        if removes_topics:
            self._remember(topic for topic in former.topics if topic not in image.topics)
        elif isinstance(request, UpdateMetadata):
            self._remember(
                topic
                for topic in deleted_topics(request)
                if topic in former.topics and topic not in image.topics
            )

    def _remember(self, deleted: Iterable[str]) -> None:
        for topic in deleted:
            self._deleted.pop(topic, None)
            self._deleted[topic] = None
        excess = max(0, len(self._deleted) - DELETED_MAX)
        for topic in list(islice(self._deleted, excess)):
            del self._deleted[topic]
