"""The client's side of an incremental fetch session (KIP-227): what the leader knows already.

Pure.  A full request (epoch 0) lists every partition and asks for a session; the following ones
list what has changed since the last one.  A request without a response closes the session: the
next one is full again.

Source: Kafka's FetchSessionHandler, FetchMetadata.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from odradek.broker.replication.fetch_session import INITIAL_EPOCH, NO_SESSION, next_epoch
from odradek.protocol.errors import ErrorCode

ReplicaKey = tuple[UUID, int]
"""Topic id and partition."""


class RequestedPartition(NamedTuple):
    """The fields of a request for one partition."""

    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    leader_epoch: int
    truncation_count: int
    """Truncations of the log; not sent.  A response is dropped when the number has changed."""


class FetchSessionHandler:
    """The session of one fetcher with one leading broker."""

    __slots__ = ("_was_full", "epoch", "id", "partitions")

    id: int
    """0: the leader has given no session."""
    epoch: int
    """Epoch of the next request."""
    partitions: dict[ReplicaKey, RequestedPartition]
    """The partitions that the leader knows, those of the request under way included."""

    def __init__(self) -> None:
        self.id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        self.partitions = {}
        self._was_full = True

    @property
    def is_full(self) -> bool:
        """Whether the next request must list every partition."""
        return self.epoch == INITIAL_EPOCH

    def begin(self) -> None:
        """A request is about to be made; a full one starts from an empty session."""
        self._was_full = self.is_full
        if self._was_full:
            self.partitions = {}

    def on_response(self, error: ErrorCode, session_id: int, listed: Iterable[ReplicaKey]) -> bool:
        """A response has come.

        listed   the partitions of the response
        returns  False: the response is not to be used, and the next request is full
        """
        if error:
            if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self.id = NO_SESSION
            self.epoch = INITIAL_EPOCH
            return False
        keys = dict.fromkeys(listed)
        is_valid = all(key in self.partitions for key in keys)
        if self._was_full:
            if not is_valid or len(keys) != len(self.partitions):
                # An empty one says that the leader throttles.
                self._forget()
                return False
        elif not is_valid:
            self.epoch = INITIAL_EPOCH
            return False
        if session_id == NO_SESSION:
            self._forget()
        elif self._was_full:
            self.id, self.epoch = session_id, 1
        else:
            self.epoch = next_epoch(self.epoch)
        return True

    def on_failure(self) -> None:
        """There is no response: the next request closes the session and asks for another one."""
        self.epoch = INITIAL_EPOCH

    def _forget(self) -> None:
        self.id = NO_SESSION
        self.epoch = INITIAL_EPOCH
