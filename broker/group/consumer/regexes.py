"""Subscriptions by expression: matched against the cluster's topics, a little at a time.

Pure.  Source: KIP-848; Kafka 4.3's GroupMetadataManager.handleRegularExpressionsResult.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from typing import Final

from odradek.broker.group.consumer.decision import Draft
from odradek.broker.group.consumer.records import regex_record
from odradek.broker.group.consumer.state import ResolvedRegex, subscribe
from odradek.broker.group.consumer.subscription_regex import TopicRegex
from odradek.broker.group.consumer.topics import TopicDirectory
from odradek.protocol.errors import BrokerError

STEP_MATCHES: Final = 8
"""At once: mostly 20 us, and at the very worst some milliseconds."""


class Matching:
    """Expressions on their way through the topics that there were when it began."""

    def __init__(self, regexes: Iterable[str], topics: TopicDirectory) -> None:
        self.version = topics.names_version
        compiled = []
        self.found: dict[str, list[str]] = {}
        for regex in regexes:
            self.found[regex] = []
            # One that an earlier release took and this one does not matches nothing.
            with suppress(BrokerError):
                compiled.append(TopicRegex(regex))
        self._left = ((regex, name) for regex in compiled for name in tuple(topics.names()))

    def step(self) -> bool:
        """Go on; whether it is over."""
        pairs = list(islice(self._left, STEP_MATCHES))
        for regex, name in pairs:
            if regex.matches(name):
                self.found[regex.regex].append(name)
        return len(pairs) < STEP_MATCHES


def store_matches(draft: Draft, matching: Matching) -> None:
    """What the expressions match is known; another epoch if it is not what it was."""
    group = draft.group
    topics = dict(group.topics)
    is_changed = False
    for regex, names in matching.found.items():
        if regex not in group.regex_subscribers:
            continue
        resolved = ResolvedRegex(tuple(sorted(names)), matching.version, draft.now.wall_ms)
        known = group.resolved_regexes.get(regex)
        before = () if known is None else known.topics
        if before != resolved.topics:
            is_changed = True
            subscribe(topics, before, by_regex=-1)
            subscribe(topics, resolved.topics, by_regex=1)
        draft.records.append(regex_record(group.group_id, regex, resolved))
    metadata_hash = draft.topics.hash_of(topics)
    if is_changed or metadata_hash != group.metadata_hash:
        draft.bump(metadata_hash)
        group.seen_topics = (draft.topics.version, draft.epoch)
