"""This broker's newest image of the cluster; made before the parts that write it and read it.

Source: Kafka's MetadataCache.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from odradek.controller.control_requests import (
    ControlRequest,
    UpdateMetadata,
    apply_update_metadata,
)
from odradek.controller.image import Image


class MetadataCache:
    """`image` is immutable and replaced as a whole, by the methods of this class; keep it for as
    long as one response takes."""

    __slots__ = ("image",)

    def __init__(self) -> None:
        self.image = Image()

    def set_cluster_id(self, cluster_id: str) -> None:
        """The id of the cluster was found."""
        self.image = replace(self.image, cluster_id=cluster_id)

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
        image = self.image
        if removes_topics:
            image = replace(image, topics={}, topic_names={}, topic_configs={})
        if topic_configs:
            image = image.with_topic_configs(topic_configs)
        if isinstance(request, UpdateMetadata):
            image = apply_update_metadata(image, request)
        elif request.controller_epoch > image.controller_epoch:
            image = replace(
                image,
                controller_id=request.controller_id,
                controller_epoch=request.controller_epoch,
            )
        self.image = image
