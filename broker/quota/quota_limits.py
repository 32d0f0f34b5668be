"""Which limit applies to a user and a client id.

Source: Kafka's ClientQuotaManager.DefaultQuotaCallback (KIP-55, KIP-257).
"""

from __future__ import annotations

from typing import Final, NamedTuple

DEFAULT: Final = ""
"""The name of all users, or all client ids, that have no quota of their own."""


class QuotaEntity(NamedTuple):
    """A user, a client id, or a client id of a user; `DEFAULT` in place of a name."""

    user: str | None = None
    client_id: str | None = None


class QuotaLimits:
    """The limits of one type of quota, by entity."""

    __slots__ = ("_limits",)

    def __init__(self) -> None:
        self._limits: dict[QuotaEntity, float] = {}

    def __len__(self) -> int:
        return len(self._limits)

    def set(self, entity: QuotaEntity, limit: float | None) -> None:
        """An entity has a limit; None: has it no more."""
        if limit is None:
            self._limits.pop(entity, None)
        else:
            self._limits[entity] = limit

    def find(self, user: str, client_id: str) -> tuple[QuotaEntity, float] | None:
        """(who shares the limit, the limit), or None when there is none.

        The first of these that is set: 1. user and client id; 2. user and default client; 3. user;
        4. default user and client id; 5. default user and default client; 6. default user;
        7. client id; 8. default client.  A limit of a user is shared by all its clients; a limit of
        a client id by all users.  A request without a client id is limited by its user only.
        cost  up to 1 us
        """
        limits = self._limits
        has_client = bool(client_id)
        for name in (user, DEFAULT):
            if has_client:
                for client in (client_id, DEFAULT):
                    limit = limits.get(QuotaEntity(name, client))
                    if limit is not None:
                        return QuotaEntity(user, client_id), limit
            limit = limits.get(QuotaEntity(name))
            if limit is not None:
                return QuotaEntity(user), limit
        if has_client:
            for client in (client_id, DEFAULT):
                limit = limits.get(QuotaEntity(None, client))
                if limit is not None:
                    return QuotaEntity(None, client_id), limit
        return None
