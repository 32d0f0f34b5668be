"""Who sends a request.

Source: Kafka's KafkaPrincipal.
"""

from __future__ import annotations

from typing import Final, NamedTuple

USER: Final = "User"
"""The only type of principals that authentication yields."""


class KafkaPrincipal(NamedTuple):
    """An authenticated client or broker, or everybody on a connection without authentication."""

    principal_type: str
    name: str
    token_authenticated: bool = False
    """Whether it has logged in with a delegation token."""

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"


ANONYMOUS: Final = KafkaPrincipal(USER, "ANONYMOUS")
"""The principal of a connection without authentication."""
