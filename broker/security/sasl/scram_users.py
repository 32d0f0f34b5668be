"""The SCRAM credentials of all users, as `/config/users` has them.

They are kept as texts: a broker whose clients do not authenticate reads none of them.
Source: Kafka's CredentialProvider.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from odradek.controller.znodes.sanitizer import desanitized

if TYPE_CHECKING:
    from odradek.runtime.scram_credential import ScramCredential

MECHANISM_TYPES: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""The number of each mechanism in requests (KIP-554)."""


class ScramUsers:
    """Follows the configs of users."""

    def __init__(self) -> None:
        self._texts: dict[str, dict[str, str]] = {}

    def on_user_config(self, entity: str, config: Mapping[str, str]) -> None:
        """The config of a user is another one; `entity` as in its path."""
        if "/" in entity:
            return
        texts = {name: config[name] for name in MECHANISM_TYPES if name in config}
        if texts:
            self._texts[desanitized(entity)] = texts
        else:
            self._texts.pop(desanitized(entity), None)

    def names(self) -> list[str]:
        """All users that have a credential."""
        return list(self._texts)

    def texts_of(self, user: str) -> Mapping[str, str]:
        """The stored credentials of a user by mechanism."""
        return self._texts.get(user, {})

    def credential(self, mechanism: str, user: str) -> ScramCredential | None:
        """The credential of a user; None, too, for one that is damaged."""
        # Imported only where clients authenticate.
        from odradek.runtime.scram_credential import parse_credential

        text = self.texts_of(user).get(mechanism)
        try:
            return None if text is None else parse_credential(text)
        except ValueError:
            return None
