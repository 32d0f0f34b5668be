"""The way of a control request from the active controller to a broker, and of its response back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from odradek.controller.image.control_requests import (
    ControlRequest,
    ControlRequestSender,
    ControlResponse,
)
from odradek.controller.image.image import BrokerImage
from odradek.controller.requests.control_request_receiver import ControlRequestReceiver


class ControlChannel(NamedTuple):
    """Passes requests for this broker to its own receiver, and sends the others.

    Source: Kafka's ControllerChannelManager.
    """

    broker_id: int
    """This broker."""
    receiver: ControlRequestReceiver
    """Receiver of this broker."""
    sender: ControlRequestSender
    """To other brokers."""
    on_response: Callable[[int, ControlRequest, ControlResponse], None]
    """(broker, request, response); may be called within `send`, and must only queue."""

    def set_brokers(self, brokers: Mapping[int, BrokerImage]) -> None:
        """The registered brokers, as the image of the controller has them now."""
        self.sender.set_brokers(brokers)

    def send(self, broker_id: int, request: ControlRequest) -> None:
        """Pass a request on; requests for one broker arrive in the order of the calls."""

        def respond(response: ControlResponse) -> None:
            self.on_response(broker_id, request, response)

        if broker_id == self.broker_id:
            self.receiver.receive(request, respond)
        else:
            self.sender.send(broker_id, request, respond)
