"""The messages of control requests, in the versions of inter.broker.protocol.version 3.4 to 3.9."""

from __future__ import annotations

from typing import Any, Final

from odradek.broker.interbroker.wire.leader_and_isr import (
    leader_and_isr_message,
    leader_and_isr_result,
)
from odradek.broker.interbroker.wire.stop_replica import (
    stop_replica_message,
    stop_replica_result,
)
from odradek.broker.interbroker.wire.update_metadata import update_metadata_message
from odradek.controller.image.control_requests import (
    ControlRequest,
    ControlResponse,
    LeaderAndIsr,
    StopReplica,
    UpdateMetadata,
)
from odradek.protocol.compiler import step_encoder
from odradek.protocol.errors import error_of
from odradek.protocol.gathered import Gathered
from odradek.runtime.work import in_units

LEADER_AND_ISR_VERSION: Final = 7
UPDATE_METADATA_VERSION: Final = 8
STOP_REPLICA_VERSION: Final = 4


async def encode(request: ControlRequest, listener_name: str) -> tuple[type[Any], int, bytes]:
    """(class, version, body) of the message of a request.

    listener_name  inter.broker.listener.name
    """
    message: Any
    match request:
        case LeaderAndIsr():
            version = LEADER_AND_ISR_VERSION
            message = await leader_and_isr_message(request, version, listener_name)
        case UpdateMetadata():
            version = UPDATE_METADATA_VERSION
            message = await update_metadata_message(request, version)
        case StopReplica():
            version = STOP_REPLICA_VERSION
            message = await stop_replica_message(request)
    cls = type(message)
    gathered = Gathered()
    await in_units(step_encoder(cls, version)(message, gathered))
    return cls, version, b"".join(gathered.finish())


def decode_response(request: ControlRequest, response: Any) -> ControlResponse:
    """The value of the response to a request."""
    match request:
        case LeaderAndIsr():
            return leader_and_isr_result(request, response)
        case UpdateMetadata():
            return ControlResponse(error_of(response.error_code))
        case StopReplica():
            return stop_replica_result(response)
