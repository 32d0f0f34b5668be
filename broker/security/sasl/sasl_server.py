"""One SASL exchange of a client, whatever the mechanism.

A mechanism is a module with a function `make(context: MechanismContext) -> Mechanism`, listed in
`mechanisms.MODULES`.  It is imported when a listener enables it.  Its exchanges are pure: bytes and
the time come in, a step comes out.  One that has to ask something first (keys of a token's issuer)
returns a coroutine that awaits `in_thread` or a `Pending` (`runtime/work`); nothing else of the
connection is read meanwhile.
Source: javax.security.sasl.SaslServer, Kafka's SaslServerAuthenticator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from odradek.broker.security.kafka_principal import KafkaPrincipal
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.runtime.work import Later


class SaslAuthenticationError(BrokerError):
    """Authentication has failed; the message goes to the client and must contain no secret."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.SASL_AUTHENTICATION_FAILED, message)


class SaslError(Exception):
    """The exchange is refused for a reason that the client does not learn, only the log.

    The client gets Kafka's text on invalid credentials.  The reason must contain no secret either.
    Source: javax.security.sasl.SaslException.
    """


class Challenge(NamedTuple):
    """The exchange goes on: bytes for the client, whose next response is evaluated."""

    data: bytes


class Authenticated(NamedTuple):
    """The exchange is complete."""

    principal: KafkaPrincipal
    data: bytes = b""
    """Last bytes for the client."""
    expires_ms: int | None = None
    """Wall time at which the credential expires, and with it the session; None: never."""


SaslStep = Challenge | Authenticated


class SaslServer(Protocol):
    """One exchange."""

    def evaluate(self, response: bytes, now_ms: int) -> SaslStep | Later[SaslStep]:
        """The next step after a response of the client; not called again after its end.

        response  at most sasl.server.max.receive.size bytes, a copy of what was received
        now_ms    wall time
        raises    SaslAuthenticationError, SaslError; the coroutine, too
        """


Mechanism = Callable[[], SaslServer]
"""A mechanism as one listener is configured: makes a new exchange."""
