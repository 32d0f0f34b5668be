"""The delegation tokens of the cluster, on one broker (KIP-48).

Source: Kafka's DelegationTokenManagerZk, DelegationTokenCache.
"""

from __future__ import annotations

import hmac
import logging
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Collection, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from odradek.broker.security.kafka_principal import KafkaPrincipal
from odradek.broker.security.sasl.mechanisms import TokenCredential
from odradek.broker.security.tokens.token_rules import TokenRules, expired
from odradek.controller.coordination.errors import PROCEDURE_ERRORS, CoordinationError
from odradek.controller.znodes.delegation_tokens import (
    ChangeToken,
    TokenInformation,
    TokenStore,
    encode_token,
)
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.runtime.clock import Clock
from odradek.runtime.pending import Pending
from odradek.runtime.randomness import Randomness
from odradek.runtime.scram_credential import (
    ITERATIONS_MIN,
    ScramCredential,
    credential_of,
    salted_password,
)
from odradek.runtime.work import Defer, SerialQueue

if TYPE_CHECKING:
    from odradek.controller.controller import Controller

TOKENS_MAX: Final = 100_000
"""Tokens of the cluster, 1 kB each; beyond them none is created."""
ZNODE_BYTES_MAX: Final = 256 << 10
"""ZooKeeper closes the connection of a client that writes 1 MiB."""
SALT_BYTES: Final = 32
CREDENTIALS_MAX: Final = 10_000
"""Credentials that are kept; beyond them all are dropped, and made again at the next login."""

logger = logging.getLogger("odradek.delegation_tokens")


class DelegationTokens:
    """`begin` comes before the first use."""

    def __init__(self, secret: str, rules: TokenRules, clock: Clock, rng: Randomness) -> None:
        """secret  delegation.token.secret.key, the same on all brokers"""
        self._secret = secret.encode()
        self._rules = rules
        self._clock = clock
        self._rng = rng
        self._tokens: dict[str, TokenInformation] = {}
        self._ids: dict[bytes, str] = {}
        """The id of each token by its HMAC."""
        self._credentials: dict[tuple[str, str], ScramCredential] = {}
        self._executor = SerialQueue(*PROCEDURE_ERRORS)
        self._store: TokenStore

    def begin(self, controller: Controller) -> None:
        """Have the tokens loaded with what else the start reads, and followed."""
        self._store = controller.follow(partial(TokenStore, on_token=self._on_token))

    def serve(self, defer: Defer) -> None:
        """Clients are served from now on."""
        self._executor.serve(defer)

    def _on_token(self, token_id: str, token: TokenInformation | None) -> None:
        if token is not None:
            self._tokens[token_id] = token
            self._ids[self.hmac_of(token_id)] = token_id
        elif self._tokens.pop(token_id, None) is not None:
            del self._ids[self.hmac_of(token_id)]
            for key in [key for key in self._credentials if key[1] == token_id]:
                del self._credentials[key]

    def hmac_of(self, token_id: str) -> bytes:
        """The password of a token."""
        return hmac.digest(self._secret, token_id.encode(), "sha512")

    def credential(self, mechanism: str, token_id: str, now_ms: int) -> TokenCredential | None:
        """What a login with a token is checked against; None for one that is not valid.

        cost  2 ms for the first login with a token, then next to nothing
        """
        token = self._tokens.get(token_id)
        if token is None or token.is_expired(now_ms):
            return None
        key = (mechanism, token_id)
        credential = self._credentials.get(key)
        if credential is None:
            if len(self._credentials) >= CREDENTIALS_MAX:
                self._credentials.clear()
            salt = self._rng.bytes(SALT_BYTES)
            password = b64encode(self.hmac_of(token_id)).decode()
            salted = salted_password(mechanism, password, salt, ITERATIONS_MIN)
            credential = credential_of(mechanism, salt, salted, ITERATIONS_MIN)
            self._credentials[key] = credential
        name = token.owner.partition(":")[2]
        return TokenCredential(name, credential, token.expiry_timestamp_ms)

    def create(
        self,
        *,
        owner: KafkaPrincipal,
        requester: KafkaPrincipal,
        renewers: Collection[str],
        max_lifetime_ms: int,
    ) -> Pending[TokenInformation]:
        """Create a token.

        fails  BrokerError DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for one too many, INVALID_REQUEST
               for too many renewers; CoordinationError
        """
        token_id = urlsafe_b64encode(self._rng.uuid().bytes).decode().rstrip("=")
        token = self._rules.created(
            token_id,
            owner=str(owner),
            requester=str(requester),
            renewers=tuple(renewers),
            max_lifetime_ms=max_lifetime_ms,
            now_ms=self._clock.now_ms(),
        )

        async def run() -> TokenInformation:
            if len(self._tokens) >= TOKENS_MAX:
                # Differs from Kafka: it has no bound.
                message = f"There are {TOKENS_MAX} delegation tokens already"
                raise BrokerError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, message)
            if len(encode_token(token)) > ZNODE_BYTES_MAX:
                raise BrokerError(ErrorCode.INVALID_REQUEST, "There are too many renewers")
            await self._store.update(token_id, lambda _: token)
            logger.info("created the delegation token %s of %s", token_id, owner)
            return token

        return self._executor.submit(run)

    def renew(self, mac: bytes, principal: KafkaPrincipal, renew_period_ms: int) -> Pending[int]:
        """The expiry of a token after its renewal.

        mac    the HMAC of the token
        fails  BrokerError as `TokenRules.renewed`; CoordinationError
        """
        now_ms = self._clock.now_ms()
        return self._change(
            mac,
            lambda token: self._rules.renewed(token, str(principal), renew_period_ms, now_ms),
            now_ms,
        )

    def expire(self, mac: bytes, principal: KafkaPrincipal, period_ms: int) -> Pending[int]:
        """The new expiry of a token; now when it is removed; fails as `renew`."""
        now_ms = self._clock.now_ms()
        return self._change(
            mac, lambda token: expired(token, str(principal), period_ms, now_ms), now_ms
        )

    def _change(self, mac: bytes, change: ChangeToken, now_ms: int) -> Pending[int]:
        async def run() -> int:
            token_id = self._ids.get(mac)
            if token_id is None:
                raise BrokerError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
            token = await self._store.update(token_id, change)
            what = "removed" if token is None else "changed the expiry of"
            logger.info("%s the delegation token %s", what, token_id)
            return now_ms if token is None else token.expiry_timestamp_ms

        return self._executor.submit(run)

    def all(self) -> Iterator[TokenInformation]:
        """Every token, expired ones too until they are removed; may change between two steps."""
        for token_id in list(self._tokens):
            token = self._tokens.get(token_id)
            if token is not None:
                yield token

    def remove_expired(self) -> None:
        """Remove the tokens whose time is over; every broker does."""
        now_ms = self._clock.now_ms()
        for token in list(self._tokens.values()):
            if token.is_expired(now_ms):
                self._executor.submit(partial(self._remove_expired, token.token_id, now_ms))

    async def _remove_expired(self, token_id: str, now_ms: int) -> None:
        try:
            kept = await self._store.update(
                token_id, lambda token: None if token and token.is_expired(now_ms) else token
            )
        except (CoordinationError, BrokerError) as error:
            logger.warning("the delegation token %s cannot be removed: %r", token_id, error)
            return
        if kept is None:
            logger.info("removed the delegation token %s: it has expired", token_id)
