"""What handlers may reach: the parts of one node, put together by `broker/node.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.clock import Clock
from runtime.files import FileSystem
from runtime.loop_watch import LoopWatch
from runtime.metrics import BrokerMetrics
from runtime.rng import Rng

if TYPE_CHECKING:
    from broker.delayed import Purgatory
    from broker.group.coordinator import GroupCoordinator
    from broker.producer_ids import ProducerIds
    from broker.refused_transactions import RefusedTransactions
    from broker.replication.appends import Appends
    from broker.replication.fetch_session import FetchSessions
    from broker.replication.partitions import Partitions
    from broker.replication.time_lookups import TimeLookups
    from broker.settings.broker_settings import BrokerSettings
    from broker.topics import Topics
    from controller.driver import Controller
    from storage.manager import LogManager


@dataclass(slots=True)
class Services:
    """The doors of a node.  A handler uses the one thing that it needs."""

    settings: BrokerSettings
    clock: Clock
    rng: Rng
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
