"""Subscriptions by regular expression: matches expressions against topic names, in short steps.

Pure.  Source: KIP-848; Kafka 4.3's GroupMetadataManager.handleRegularExpressionsResult.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from odradek.broker.group.consumer.decision import Decision
from odradek.broker.group.consumer.records import regex_record
from odradek.broker.group.consumer.state import ResolvedRegex, subscribe
from odradek.broker.group.consumer.subscription_regex import TopicRegex
from odradek.broker.group.consumer.topics import TopicDirectory
from odradek.protocol.errors import BrokerError

COMPLETE: Final = True


class RegexMatching:
    """A run of all expressions over the topics that existed when it began."""

    def __init__(self, regexes: Iterable[str], topics: TopicDirectory) -> None:
        self.version = topics.names_version
        self.matches: dict[str, list[str]] = {regex: [] for regex in regexes}
        self._matches = self._match(topics.names())

    def step(self) -> bool:
        """Compile one more expression, or match one more name: usually 2 us, at worst 12 ms.

        returns  whether the run is complete
        """
        return next(self._matches, COMPLETE)

    def _match(self, names: Iterable[str]) -> Iterator[bool]:
        for regex, matches in self.matches.items():
            try:
                compiled = TopicRegex(regex)
            except BrokerError:
                continue  # An expression that only an earlier release accepts matches nothing.
            yield False
            for name in names:
                if compiled.matches(name):
                    matches.append(name)
                yield False


def store_matches(decision: Decision, matching: RegexMatching) -> None:
    """Store the topics of each expression; begins an epoch if the group's topics have changed."""
    group = decision.group
    topics = dict(group.topics)
    is_changed = False
    for regex, names in matching.matches.items():
        if regex not in group.regex_subscribers:
            continue
        resolved = ResolvedRegex(tuple(sorted(names)), matching.version, decision.now.wall_ms)
        stored_regex = group.resolved_regexes.get(regex)
        before = () if stored_regex is None else stored_regex.topics
        if before != resolved.topics:
            is_changed = True
            subscribe(topics, before, by_regex=-1)
            subscribe(topics, resolved.topics, by_regex=1)
        decision.records.append(regex_record(group.group_id, regex, resolved))
    metadata_hash = decision.topics.hash_of(topics)
    if is_changed or metadata_hash != group.metadata_hash:
        decision.bump_epoch(metadata_hash)
        group.note_seen_topics(decision.topics.version, decision.epoch)
