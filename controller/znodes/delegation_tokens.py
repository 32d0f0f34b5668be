"""Delegation tokens in `/delegation_token`: read all, write one, follow changes.

A token's HMAC is not stored: every broker makes it of the id and the secret that all have.
Source: KIP-48, KIP-373; Kafka's DelegationTokenManagerZk, TokenInformation, KafkaZkClient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from odradek.controller.coordination.errors import (
    BadVersion,
    ConnectionLoss,
    MultiFailed,
    NodeExists,
    NoNode,
)
from odradek.controller.coordination.session import (
    CoordinationSession,
    Create,
    Delete,
    SetData,
    ZkOperation,
)
from odradek.controller.znodes.change_notifications import ChangeNotifications, Notification
from odradek.controller.znodes.cluster_reading import Warn
from odradek.controller.znodes.fenced_writes import ensure_path, read_all
from odradek.controller.znodes.sanitizer import desanitized, sanitized
from odradek.controller.znodes.zk_data import (
    BadZnode,
    decode_json,
    encode_json,
    field,
    int64,
    shown,
)
from odradek.protocol.errors import BrokerError, ErrorCode
from odradek.runtime.work import pause, shares

TOKENS: Final = "/delegation_token/tokens"
TOKEN_CHANGE_PREFIX: Final = "/delegation_token/token_changes/token_change_"
VERSION: Final = 3
ATTEMPTS_MAX: Final = 10


class TokenInformation(NamedTuple):
    """A token, without its HMAC; principals are texts such as `User:alice`."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp_ms: int
    max_timestamp_ms: int
    expiry_timestamp_ms: int

    def is_expired(self, now_ms: int) -> bool:
        """Whether its time is over."""
        return self.max_timestamp_ms < now_ms or self.expiry_timestamp_ms < now_ms

    def is_of(self, principal: str) -> bool:
        """Whether a principal is its owner, a renewer, or has requested it."""
        return principal in (self.owner, self.requester, *self.renewers)


OnToken = Callable[[str, TokenInformation | None], None]
"""Called with the id of a token and what is stored of it now; None: nothing any more."""
ChangeToken = Callable[[TokenInformation | None], TokenInformation | None]
"""What is stored -> what will be; None stands for no znode.  May be called again."""


def encode_token(token: TokenInformation) -> bytes:
    """Version 3, byte for byte as Kafka."""
    return encode_json(
        {
            "issueTimestamp": token.issue_timestamp_ms,
            "renewers": [sanitized(renewer) for renewer in token.renewers],
            "tokenRequester": sanitized(token.requester),
            "tokenId": token.token_id,
            "owner": sanitized(token.owner),
            "expiryTimestamp": token.expiry_timestamp_ms,
            "maxTimestamp": token.max_timestamp_ms,
            "version": VERSION,
        }
    )


def decode_token(data: bytes | None) -> TokenInformation:
    """Versions 1 to 3; the owner has requested a token of an older version.

    raises  BadZnode
    """
    value = decode_json(data)
    version = field(value, "version", int)
    if not 1 <= version <= VERSION:
        raise BadZnode(f"version is {shown(version)}")
    owner = _principal(value, "owner")
    renewers = field(value, "renewers", list)
    return TokenInformation(
        field(value, "tokenId", str),
        owner,
        _principal(value, "tokenRequester") if version >= VERSION else owner,
        tuple(_principal({"renewer": renewer}, "renewer") for renewer in renewers),
        int64(value.get("issueTimestamp")),
        int64(value.get("maxTimestamp")),
        int64(value.get("expiryTimestamp")),
    )


def _principal(value: dict[str, object], name: str) -> str:
    text = desanitized(field(value, name, str))
    if ":" not in text:
        raise BadZnode(f"{name} is {shown(text)}")
    return text


class TokenStore:
    """The tokens of the cluster, as far as this broker has read them."""

    def __init__(self, session: CoordinationSession, warn: Warn, *, on_token: OnToken) -> None:
        self._session = session
        self._warn = warn
        self._on_token = on_token
        self._notifications = ChangeNotifications(session, TOKEN_CHANGE_PREFIX)
        self.folder = self._notifications.folder
        self._token_ids: dict[str, None] = {}

    async def load(self) -> None:
        """Create the folders, watch for changes, read all tokens."""
        await ensure_path(self._session, self.folder)
        await ensure_path(self._session, TOKENS)
        await self._notifications.begin()
        stored = dict.fromkeys(await self._session.children(TOKENS))
        for token_id in [token_id for token_id in self._token_ids if token_id not in stored]:
            self._keep(token_id, None)
        for share in shares(list(stored)):
            await self._read(share)

    async def on_changes(self, now_ms: int) -> None:
        """Read the tokens that new notifications name."""
        await self._notifications.on_changes(now_ms, self._read_changed)

    async def _read_changed(self, notifications: Sequence[Notification]) -> None:
        changed: dict[str, None] = {}
        for path, data in notifications:
            token_id = (data or b"").decode("utf-8", "replace")
            # A path that ZooKeeper refuses would be refused again and again.
            if token_id in ("", ".", "..") or "/" in token_id or not token_id.isprintable():
                self._warn(f"{path}: not the id of a delegation token")
            else:
                changed[token_id] = None
        for share in shares(list(changed)):
            await self._read(share)

    async def _read(self, token_ids: Sequence[str]) -> None:
        paths = [f"{TOKENS}/{token_id}" for token_id in token_ids]
        znodes = await read_all(self._session, paths)
        for token_id, path, znode in zip(token_ids, paths, znodes, strict=True):
            await pause()
            try:
                token = None if znode is None else decode_token(znode[0])
            except BadZnode as error:
                self._warn(f"{path}: {error}")
            else:
                self._keep(token_id, token)

    def _keep(self, token_id: str, token: TokenInformation | None) -> None:
        if token is None:
            self._token_ids.pop(token_id, None)
        else:
            self._token_ids[token_id] = None
        self._on_token(token_id, token)

    async def update(self, token_id: str, change: ChangeToken) -> TokenInformation | None:
        """Change a token by compare-and-set, and notify all brokers.

        returns  what is stored then
        raises   BrokerError of `change`, or UNKNOWN_SERVER_ERROR when the token kept changing;
                 CoordinationError
        """
        path = f"{TOKENS}/{token_id}"
        # Differs from Kafka: the notification is in the same multi, so none is lost with its
        # writer; and a token that another broker has removed is not created again.
        notify = Create(TOKEN_CHANGE_PREFIX, token_id.encode(), sequential=True)
        written: TokenInformation | None = None
        is_uncertain = False
        for _ in range(ATTEMPTS_MAX):
            (znode,) = await read_all(self._session, [path])
            stored = None if znode is None else decode_token(znode[0])
            if not (is_uncertain and stored == written):
                written = change(stored)
                if written == stored:
                    return stored
                version = -1 if znode is None else znode[1].version
                try:
                    await self._session.multi([_write_of(path, written, version), notify])
                except ConnectionLoss:
                    is_uncertain = True
                    continue
                except MultiFailed as failed:
                    if failed.index != 0 or not isinstance(
                        failed.error, BadVersion | NodeExists | NoNode
                    ):
                        raise failed.error from failed
                    is_uncertain = False
                    continue
            self._keep(token_id, written)
            return written
        raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, "the delegation token kept changing")


def _write_of(path: str, token: TokenInformation | None, version: int) -> ZkOperation:
    if token is None:
        return Delete(path, version)
    if version < 0:
        return Create(path, encode_token(token))
    return SetData(path, encode_token(token), version)
