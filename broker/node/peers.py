"""The connections of a node to the other brokers of its cluster."""

from __future__ import annotations

from uuid import UUID

from odradek.broker.interbroker.control_channels import ControlChannels
from odradek.broker.interbroker.controller_channel import ControllerChannel
from odradek.broker.interbroker.network_client import NetworkClients
from odradek.broker.node.platform import Platform
from odradek.broker.node.sasl import build_login
from odradek.broker.node.tls import NodeTls
from odradek.broker.replication.partitions import Partitions
from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.controller.controller import Controller
from odradek.protocol.topic_partition import ZERO_UUID


class Peers:
    """Clients of other brokers: as the controller of theirs, and of theirs as this node's one."""

    def __init__(
        self, platform: Platform, settings: BrokerSettings, *, broker_id: int, tls: NodeTls
    ) -> None:
        self._platform = platform
        self._settings = settings
        inter_broker = settings.inter_broker_listener_name
        control_plane = (settings.control_plane_listener_name or inter_broker).upper()

        def clients_of(listener: str) -> NetworkClients:
            return NetworkClients(
                platform.loop,
                platform.peer_wheel,
                connect_timeout_ms=settings.socket_connection_setup_timeout_ms,
                request_timeout_ms=settings.request_timeout_ms,
                after=platform.purgatory.run_notified,
                loop_watch=platform.loop_watch,
                open_connection=tls.open_connection(platform, listener),
                login=build_login(settings, listener, platform.rng),
            )

        self.clients = clients_of(inter_broker)
        self.control_channels = ControlChannels(
            self.clients if control_plane == inter_broker else clients_of(control_plane),
            platform.peer_wheel,
            platform.peer_clock,
            broker_id=broker_id,
            listener_name=control_plane,
            inter_broker_listener_name=inter_broker,
        )

    def controller_channel(
        self, controller: Controller, partitions: Partitions
    ) -> ControllerChannel:
        """The way to the active controller; `controller` is the part of this node."""

        def topic_id(topic: str, index: int) -> UUID:
            partition = partitions.get(topic, index)
            return ZERO_UUID if partition is None else partition.topic_id

        return ControllerChannel(
            controller,
            self.clients,
            self._platform.peer_wheel,
            self._platform.peer_clock,
            topic_id=topic_id,
            listener_name=self._settings.inter_broker_listener_name,
            timeout_ms=self._settings.controller_socket_timeout_ms,
        )
