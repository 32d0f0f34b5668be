"""The authentication of one connection, from its first request to the end of its last session.

Pure: requests and the time come in, what to respond comes out.
Source: Kafka's SaslServerAuthenticator, KIP-43, KIP-152, KIP-368.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from odradek.broker.security.kafka_principal import ANONYMOUS, KafkaPrincipal
from odradek.broker.security.sasl.sasl_server import (
    Authenticated,
    Mechanism,
    SaslAuthenticationError,
    SaslError,
    SaslServer,
    SaslStep,
)
from odradek.runtime.work import Later

REAUTHENTICATION_INTERVAL_MS = 1_000
"""The least time between two authentications of a connection that begin again."""


class SaslState(Enum):
    """What a connection may send next."""

    VERSIONS_OR_HANDSHAKE = "ApiVersions or SaslHandshake"
    HANDSHAKE = "SaslHandshake"
    AUTHENTICATE = "a message of the mechanism"
    COMPLETE = "any request"


class SaslListener(NamedTuple):
    """What the connections of one listener share."""

    mechanisms: Mapping[str, Mechanism]
    reauthentication_ms: Mapping[str, int]
    """connections.max.reauth.ms by mechanism; 0: sessions have no end of their own."""
    receive_bytes_max: int
    failure_delay_ms: int


class Response(NamedTuple):
    """The response to a message of a mechanism."""

    data: bytes
    session_lifetime_ms: int = 0
    """0: without an end, or the exchange goes on."""


class SaslServerAuthenticator:
    """The state of one connection."""

    def __init__(self, listener: SaslListener) -> None:
        self._listener = listener
        self.state = SaslState.VERSIONS_OR_HANDSHAKE
        self.takes_tokens = False
        """Whether the messages of the mechanism are frames by themselves (handshake version 0)."""
        self.principal = ANONYMOUS
        self._mechanism = ""
        self._server: SaslServer | None = None
        self._expires_ms: int | None = None
        self._began_again_ms: int | None = None
        self.refusal: str | None = None
        """Why the next message of the mechanism is refused without a response."""

    @property
    def has_session(self) -> bool:
        """Whether the session has an end."""
        return self._expires_ms is not None

    @property
    def is_reauthentication(self) -> bool:
        """Whether the client has begun to authenticate again."""
        return self._began_again_ms is not None

    def is_expired(self, monotonic_ms: int) -> bool:
        return self._expires_ms is not None and monotonic_ms > self._expires_ms

    def begin_again(self, monotonic_ms: int) -> bool:
        """Begin a re-authentication, with a SaslHandshake of an authenticated client.

        False: there is no session that ends, or the last one began less than a second ago.
        """
        last_ms = self._began_again_ms
        if self._expires_ms is None or (
            last_ms is not None and monotonic_ms - last_ms < REAUTHENTICATION_INTERVAL_MS
        ):
            return False
        self._began_again_ms = monotonic_ms
        self.state = SaslState.HANDSHAKE
        return True

    def on_versions(self) -> bool:
        """ApiVersions was served; False: it may not be asked for now."""
        if self.state is not SaslState.VERSIONS_OR_HANDSHAKE:
            return False
        self.state = SaslState.HANDSHAKE
        return True

    def on_handshake(self, mechanism: str, version: int) -> bool:
        """A SaslHandshake; False: the listener has no such mechanism."""
        if mechanism not in self._listener.mechanisms:
            return False
        if self._began_again_ms is not None and mechanism != self._mechanism:
            self.refusal = (
                f"SASL mechanism '{mechanism}' requested by client is not supported for "
                f"re-authentication of mechanism '{self._mechanism}'"
            )
        else:
            self._mechanism = mechanism
            self._server = self._listener.mechanisms[mechanism]()
        self.takes_tokens = version == 0
        self.state = SaslState.AUTHENTICATE
        return True

    def evaluate(self, message: bytes, now_ms: int) -> SaslStep | Later[SaslStep]:
        """Pass on a message of the mechanism; `on_step` takes what comes.

        raises  SaslAuthenticationError, SaslError
        """
        assert self._server is not None, "there was a handshake"
        return self._server.evaluate(message, now_ms)

    def on_step(self, step: SaslStep, now_ms: int, monotonic_ms: int) -> Response:
        """Go on, or complete the authentication.

        raises  SaslAuthenticationError
        """
        if not isinstance(step, Authenticated):
            return Response(step.data)
        if self._began_again_ms is not None:
            self._check_principal(step.principal)
        self.principal = step.principal
        reauthentication_ms = self._listener.reauthentication_ms[self._mechanism]
        bounds = [reauthentication_ms] if reauthentication_ms > 0 else []
        if step.expires_ms is not None:
            bounds.append(step.expires_ms - now_ms)
        lifetime_ms = max(0, min(bounds, default=0))
        self._expires_ms = monotonic_ms + lifetime_ms if bounds else None
        self._server = None
        self.takes_tokens = False
        self.state = SaslState.COMPLETE
        return Response(step.data, lifetime_ms)

    def _check_principal(self, principal: KafkaPrincipal) -> None:
        before = self.principal
        if (before.principal_type, before.name) != (principal.principal_type, principal.name):
            raise SaslAuthenticationError(
                "Cannot change principals during re-authentication from "
                f"{before.principal_type}.{before.name}: "
                f"{principal.principal_type}.{principal.name}"
            )

    def error_text(self, error: SaslAuthenticationError | SaslError) -> str:
        """What the client reads."""
        if isinstance(error, SaslAuthenticationError):
            return str(error.message)
        kind = "authentication" if self._began_again_ms is None else "re-authentication"
        return (
            f"Authentication failed during {kind} due to invalid credentials with SASL mechanism "
            f"{self._mechanism}"
        )
