"""What handlers may reach: the parts of one node, put together by `broker/node/node.py`."""

from __future__ import annotations

from dataclasses import dataclass

from odradek.broker.group.coordinator import GroupCoordinator
from odradek.broker.producer_ids import ProducerIds
from odradek.broker.purgatory import Purgatory
from odradek.broker.refused_transactions import RefusedTransactions
from odradek.broker.replication.fetch_session import FetchSessions
from odradek.broker.replication.partitions import Partitions
from odradek.broker.replication.staged_appends import Appends
from odradek.broker.replication.time_lookups import TimeLookups
from odradek.broker.settings.broker_settings import BrokerSettings
from odradek.broker.topics import Topics
from odradek.controller.controller import Controller
from odradek.runtime.clock import Clock
from odradek.runtime.files import FileSystem
from odradek.runtime.loop_watch import LoopWatch
from odradek.runtime.metrics import BrokerMetrics
from odradek.runtime.randomness import Randomness
from odradek.storage.directories.log_manager import LogManager


@dataclass(slots=True)
class Services:
    """The doors of a node.  A handler uses the one thing that it needs."""

    settings: BrokerSettings
    clock: Clock
    rng: Randomness
    metrics: BrokerMetrics
    loop_watch: LoopWatch
    purgatory: Purgatory
    partitions: Partitions
    appends: Appends
    fetch_sessions: FetchSessions
    time_lookups: TimeLookups
    producer_ids: ProducerIds
    topics: Topics
    controller: Controller
    logs: LogManager
    files: FileSystem
    groups: GroupCoordinator
    refused_transactions: RefusedTransactions
