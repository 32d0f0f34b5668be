"""Three of four brokers are killed, again and again, with elections of preferred leaders between.

    python -m tests.cluster.campaign_leader_changes [--rounds 20] [--minutes 60]

Two idempotent producers of librdkafka write all the time, with `debug=eos,topic,metadata`.  After
each round all brokers have to describe the topics alike, and both producers get records into each
partition; at the end each acknowledged value has to be there once, in order.  A new epoch of a
producer is no error by itself: it is counted.  Appends a line to `leader_changes.jsonl`: when,
commit, rounds, records, new epochs, findings.  The last lines of the producers' logs and all
responses are left in a folder if there is one.
"""

from __future__ import annotations

import argparse
import logging
import re
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

from confluent_kafka import KafkaError, Message, Producer

from odradek.protocol.messages.elect_leaders import ElectLeadersRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.schema import ZERO_UUID
from tests.cluster.acknowledged import Production, check
from tests.cluster.reassigning import ask
from tests.support.broker_cluster import BrokerCluster, ClusterSilent, broker_cluster
from tests.support.ledger import append, commit
from tests.support.wire import Closed, Wire
from tests.support.zookeeper import zookeeper

LEDGER = Path(__file__).with_name("leader_changes.jsonl")
TOPICS = ("plain", "compacted")
PARTITIONS = 12
BROKERS = 4
KILLED = 3
PRODUCERS = 2
METADATA_VERSION = 7
ELECT_VERSION = 2
DELIVERY_MS = 120_000
PROGRESS_S = 60.0
"""For a record into each partition, once all brokers agree."""
PAUSE_S = 0.005
LOG_LINES = 50_000
STAYS = "not migrating away from preferred replica"
"""What librdkafka says of a partition that it leaves with a broker that does not lead it:
tests/chaos/test_client_stays_at_old_leader.py."""
NEW_EPOCH = re.compile(r"skipped sequence numbers|bumped epoch")
SETTINGS = {"zookeeper.session.timeout.ms": "3000", "log.cleaner.backoff.ms": "2000"}


class Finding(AssertionError):
    """What must not happen; the text says what did."""


class WritingProducer(threading.Thread):
    """Writes to all partitions of the topics until the end."""

    def __init__(self, number: int, bootstrap: str) -> None:
        super().__init__(name=f"producer-{number}", daemon=True)
        self.log: deque[str] = deque(maxlen=LOG_LINES)
        self.new_epochs: list[str] = []
        self.productions = {topic: Production(f"{topic}-{number}", PARTITIONS) for topic in TOPICS}
        self.news = threading.Condition()
        self.latest: dict[tuple[str, int], float] = {}
        """When the last acknowledged record of each partition was sent."""
        self._ended = threading.Event()
        logger = logging.Logger(self.name)
        logger.addHandler(_Lines(self))
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": self.name,
                "enable.idempotence": True,
                "linger.ms": 2,
                "message.timeout.ms": DELIVERY_MS,
                "reconnect.backoff.max.ms": 500,
                "debug": "eos,topic,metadata",
            },
            logger=logger,
        )

    def run(self) -> None:
        number = 0
        while not self._ended.wait(PAUSE_S):
            for topic in TOPICS:
                with suppress(BufferError):
                    self._send(self.productions[topic], number % PARTITIONS, number)
            self._producer.poll(0)
            number += 1
        self._producer.flush(DELIVERY_MS / 1000 + 10)

    def _send(self, production: Production, partition: int, number: int) -> None:
        sent_s = time.monotonic()

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            with self.news:
                if error is not None:
                    production.failures.append(f"{partition}: {number}: {error}")
                else:
                    production.acknowledged.setdefault(partition, []).append(number)
                    self.latest[production.topic, partition] = sent_s
                self.news.notify_all()

        self._producer.produce(
            production.topic,
            b"%d" % number,
            b"%s-%d" % (self.name.encode(), number),
            partition=partition,
            on_delivery=on_delivery,
        )

    def wait_for_each_partition(self) -> None:
        """Until a record that was sent after now is acknowledged in each partition."""
        since_s = time.monotonic()

        def missing() -> list[tuple[str, int]]:
            return [
                (production.topic, partition)
                for production in self.productions.values()
                for partition in range(PARTITIONS)
                if self.latest.get((production.topic, partition), 0.0) < since_s
            ]

        with self.news:
            if not self.news.wait_for(lambda: not missing(), PROGRESS_S):
                left = missing()
                raise Finding(
                    f"{self.name} gets nothing into {left} for {PROGRESS_S} s; its last lines about"
                    f" them: {[self._last_line(*place) for place in left]}"
                )

    def _last_line(self, topic: str, partition: int) -> str:
        """Why the client stays where it is, if it says so."""
        name = f"{topic} [{partition}]"
        lines = [line for line in self.log if STAYS in line and name in line]
        return lines[-1] if lines else ""

    def end(self) -> None:
        """Send nothing any more; returns when all that was sent has an outcome."""
        self._ended.set()
        self.join(DELIVERY_MS / 1000 + 30)
        assert not self.is_alive(), f"{self.name} does not end"


class _Lines(logging.Handler):
    def __init__(self, producer: WritingProducer) -> None:
        super().__init__()
        self._producer = producer

    def emit(self, record: logging.LogRecord) -> None:
        line = f"{time.monotonic():.3f} {record.getMessage()}"
        self._producer.log.append(line)
        if NEW_EPOCH.search(line):
            self._producer.new_epochs.append(line)


def described(cluster: BrokerCluster, broker_id: int, names: Sequence[str]) -> list[str]:
    """What a broker says of each partition: leader, leader epoch, replicas and in-sync ones."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name, topic_id=ZERO_UUID) for name in names],
        allow_auto_topic_creation=False,
    )
    with Wire(cluster.brokers[broker_id].address) as wire:
        response = wire.call(request, METADATA_VERSION)
    return sorted(
        f"{topic.name}-{partition.partition_index}: leader {partition.leader_id}"
        f" epoch {partition.leader_epoch} replicas {partition.replica_nodes}"
        f" isr {sorted(partition.isr_nodes)} error {partition.error_code}"
        for topic in response.topics
        for partition in topic.partitions
    )


def elect_preferred(cluster: BrokerCluster) -> None:
    """Of all partitions; nothing happens while there is no controller."""
    with suppress(ClusterSilent, OSError, Closed):
        ask(cluster, ElectLeadersRequest(topic_partitions=None, timeout_ms=10_000), ELECT_VERSION)


def run_round(
    cluster: BrokerCluster, producers: Sequence[WritingProducer], names: Sequence[str], rng: Random
) -> None:
    """Kill three, start them, elect while they come back; then all has to be as it was."""
    elect_preferred(cluster)
    keeps_controller = rng.random() < 0.5
    survivor = cluster.controller() if keeps_controller else rng.choice(cluster.running)
    for broker_id in [broker_id for broker_id in cluster.running if broker_id != survivor]:
        cluster.kill(broker_id)
    cluster.start_all()
    elect_preferred(cluster)
    cluster.wait_for_brokers()
    elect_preferred(cluster)
    for name in names:
        cluster.wait_until_complete(name)

    def is_equal() -> bool:
        return (
            len({tuple(described(cluster, broker_id, names)) for broker_id in cluster.running}) == 1
        )

    cluster.wait(is_equal, "the same Metadata from every broker", timeout_s=PROGRESS_S)
    for producer in producers:
        producer.wait_for_each_partition()


def keep(folder: Path, cluster: BrokerCluster, producers: Sequence[WritingProducer]) -> None:
    """Write down what may show the cause."""
    names = [
        production.topic for producer in producers for production in producer.productions.values()
    ]
    for producer in producers:
        (folder / f"{producer.name}.log").write_text("\n".join(producer.log))
    for broker_id in cluster.running:
        with suppress(OSError, Closed):
            text = "\n".join(described(cluster, broker_id, names))
            (folder / f"metadata-of-{broker_id}").write_text(text)


def campaign(folder: Path, rounds: int, minutes: float, seed: int) -> dict[str, object]:
    """Returns the line of the ledger."""
    end_s = time.monotonic() + 60 * minutes
    done = 0
    findings: list[str] = []
    with (
        zookeeper(folder / "zookeeper") as address,
        broker_cluster(
            folder, zookeeper_connect=f"{address}/changes", count=BROKERS, overrides=SETTINGS
        ) as cluster,
    ):
        producers = [WritingProducer(number, cluster.bootstrap) for number in range(PRODUCERS)]
        for producer in producers:
            for topic, production in producer.productions.items():
                configs = {"segment.bytes": "65536", "segment.ms": "5000"}
                policy = {"cleanup.policy": "compact", **configs} if topic == "compacted" else {}
                cluster.create_topic(production.topic, partitions=PARTITIONS, configs=policy)
        names = [
            production.topic
            for producer in producers
            for production in producer.productions.values()
        ]
        for producer in producers:
            producer.start()
        try:
            rng = Random(seed)
            while done < rounds and time.monotonic() < end_s:
                run_round(cluster, producers, names, rng)
                done += 1
                print(done, [len(producer.new_epochs) for producer in producers], flush=True)
        except (Finding, ClusterSilent) as error:
            findings.append(f"round {done + 1}: {str(error).splitlines()[0]}")
            keep(folder, cluster, producers)
        for producer in producers:
            producer.end()
        for producer in producers:
            for production in producer.productions.values():
                try:
                    assert not production.failures, production.failures[:5]
                    check(production, cluster.bootstrap)
                except AssertionError as error:
                    findings.append(f"{production.topic}: {error}")
        if findings or any(producer.new_epochs for producer in producers):
            keep(folder, cluster, producers)
    texts = Counter(
        match.group()
        for producer in producers
        for line in producer.new_epochs
        if (match := NEW_EPOCH.search(line))
    )
    return {
        "commit": commit(),
        "seed": seed,
        "rounds": done,
        "records": sum(x.count() for producer in producers for x in producer.productions.values()),
        "new_epochs": dict(texts),
        "findings": findings,
    }


def main() -> int:
    """1 when there are findings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    began = time.gmtime()
    folder = Path(tempfile.mkdtemp(prefix="campaign-leader-changes-"))
    line = campaign(folder, arguments.rounds, arguments.minutes, arguments.seed)
    append(LEDGER, {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", began), **line})
    if line["findings"] or line["new_epochs"]:
        print(f"logs in {folder}", file=sys.stderr)
    else:
        shutil.rmtree(folder)
    return 1 if line["findings"] else 0


if __name__ == "__main__":
    sys.exit(main())
