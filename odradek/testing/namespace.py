"""The broker of several tests as one test sees it: with names of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Final, TypeVar

from odradek.testing.control import ControlClient
from odradek.testing.handle import KafkaHandle

if TYPE_CHECKING:
    from odradek.tools.client import Client

T = TypeVar("T")

NAME_MAX: Final = 80
"""Characters of a test's name in the names that it uses; a topic has at most 249."""
_ILLEGAL: Final = re.compile(r"[^a-zA-Z0-9-]+")
_numbers: Final = count(1)
"""The numbers in names, for all tests of this process, so that no name is given twice."""


class KafkaNamespace(KafkaHandle):
    """A handle of a running broker that makes unique names for one test."""

    def __init__(self, shared: KafkaHandle, test: str) -> None:
        """test  its name, which is part of the names"""
        super().__init__()
        self._shared = shared
        self._test = _ILLEGAL.sub("-", test).strip("-")[:NAME_MAX]

    @property
    def bootstrap_servers(self) -> str:
        """host:port of the broker."""
        return self._shared.bootstrap_servers

    @property
    def controls(self) -> Sequence[ControlClient]:
        """The control channel of the broker, whose time is that of all its tests."""
        return self._shared.controls

    def name(self, name: str) -> str:
        """A name that no other test has, such as that of a group or a transactional id."""
        return f"{name}-{self._test}-{next(_numbers)}"

    def topic(
        self, name: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> str:
        """Create a topic with a name that no other test has; returns the name.

        raises  ClientError; KafkaError
        """
        return self.create_topic(self.name(name), partitions=partitions, configs=configs)

    def with_client(self, act: Callable[[Client], T]) -> T:
        """Act with the client of the shared handle."""
        return self._shared.with_client(act)
