"""One scrape: what the parts of a broker know, as the metrics that dashboards ask for.

Names and labels are those that the usual rules of Prometheus's JMX exporter make of Kafka's MBeans
(`kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions` is
`kafka_server_replicamanager_underreplicatedpartitions`); those of committed offsets and lag are
kafka_exporter's; those that only this broker has begin with `odradek_`.
A scrape goes on in slices: partitions and offsets are read `PARTITIONS_PER_STEP` at a time.
Source: Kafka's monitoring documentation; example_configs/kafka-2_0_0.yml of jmx_exporter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from operator import add
from typing import Final, NamedTuple

from odradek.broker.monitoring.exposition import (
    Exposition,
    Family,
    counter,
    gauge,
    label_text,
    per_second,
)
from odradek.broker.monitoring.group_metrics import write_groups
from odradek.broker.monitoring.health import ClusterProblems
from odradek.broker.monitoring.lag_times import LagTimes
from odradek.broker.monitoring.node_metrics import NodeMetrics
from odradek.broker.monitoring.process_metrics import read_process, write_process
from odradek.broker.monitoring.request_metrics import RequestMetrics
from odradek.broker.replication.partition import Partition
from odradek.broker.services import Services
from odradek.controller.image.image import Image
from odradek.protocol.api_keys import ApiKey
from odradek.runtime.work import in_thread, pause

PARTITIONS_PER_STEP: Final = 100
RUNNING: Final = 3
"""BrokerState RUNNING of Kafka."""


TOPIC_FAMILIES: Final = (
    counter("kafka_server_brokertopicmetrics_messagesin", "Records that producers have sent."),
    counter("kafka_server_brokertopicmetrics_bytesin", "Bytes of batches that producers sent."),
    counter("kafka_server_brokertopicmetrics_bytesout", "Bytes of batches read by consumers."),
    counter("kafka_server_brokertopicmetrics_totalproducerequests", "Batches, or requests."),
    counter("kafka_server_brokertopicmetrics_failedproducerequests", "Those that were refused."),
    counter("kafka_server_brokertopicmetrics_totalfetchrequests", "Reads, or requests."),
    counter("kafka_server_brokertopicmetrics_failedfetchrequests", "Those with an error."),
)
"""By topic, and without a label for all topics together."""

PARTITION_FAMILIES: Final = (
    gauge("kafka_log_log_size", "Bytes of the segments of a replica."),
    gauge("kafka_log_log_numlogsegments", "Segments of a replica."),
    gauge("kafka_log_log_logstartoffset", "The first offset of a replica."),
    gauge("kafka_log_log_logendoffset", "The offset of the next record of a replica."),
    gauge("kafka_topic_partition_oldest_offset", "The first offset of a replica."),
    gauge("kafka_topic_partition_current_offset", "The high watermark of a replica."),
)
LED_FAMILIES: Final = (
    gauge("kafka_cluster_partition_replicascount", "Replicas of a partition that is led here."),
    gauge("kafka_cluster_partition_insyncreplicascount", "In-sync replicas, where it is led."),
    gauge("kafka_cluster_partition_underreplicated", "1 while a replica is out of sync."),
    gauge("kafka_cluster_partition_underminisr", "1 below min.insync.replicas."),
    gauge("kafka_cluster_partition_atminisr", "1 at min.insync.replicas exactly."),
    gauge("kafka_topic_partition_replicas", "Replicas of a partition that is led here."),
    gauge("kafka_topic_partition_in_sync_replica", "In-sync replicas, where it is led."),
    gauge("kafka_topic_partition_under_replicated_partition", "1 while one is out of sync."),
    gauge("kafka_topic_partition_leader_is_preferred", "1 where the preferred leader leads."),
)
_UNDER_REPLICATED: Final = 2
_UNDER_MIN_ISR: Final = 3
_AT_MIN_ISR: Final = 4

BROKER_COUNTERS: Final = (
    ("replication_bytes_in", "kafka_server_brokertopicmetrics_replicationbytesin"),
    ("isr_shrinks", "kafka_server_replicamanager_isrshrinks"),
    ("isr_expands", "kafka_server_replicamanager_isrexpands"),
    ("failed_isr_updates", "kafka_server_replicamanager_failedisrupdates"),
    ("connections_opened", "odradek_connections_opened"),
    ("connections_closed", "odradek_connections_closed"),
    ("connections_refused", "odradek_connections_refused"),
    ("malformed_frames", "odradek_malformed_frames"),
    ("request_errors", "odradek_request_errors"),
    ("storage_errors", "odradek_storage_errors"),
    ("loop_slow_callbacks", "odradek_loop_slow_callbacks"),
    ("compactions", "odradek_compactions"),
    ("compaction_read_bytes", "odradek_compaction_read_bytes"),
    ("compaction_written_bytes", "odradek_compaction_written_bytes"),
    ("compaction_worker_deaths", "odradek_compaction_worker_deaths"),
)
"""(attribute of BrokerMetrics, name of the metric without `_total`)."""
BROKER_GAUGES: Final = (
    ("delayed_requests", "odradek_delayed_requests"),
    ("loop_lag_ms", "odradek_loop_lag_milliseconds"),
    ("loop_lag_max_ms", "odradek_loop_lag_max_milliseconds"),
    ("loop_callback_max_ms", "odradek_loop_callback_max_milliseconds"),
    ("compaction_last_ms", "kafka_log_logcleaner_cleaner_last_milliseconds"),
    ("compaction_dirty_ratio_max", "kafka_log_logcleanermanager_max_dirty_percent"),
    ("compaction_uncleanable_logs", "kafka_log_logcleanermanager_uncleanable_partitions_count"),
)


class Sources(NamedTuple):
    """Where a scrape reads.

    held_bytes  memory of requests and responses that is held now
    """

    services: Services
    requests: RequestMetrics
    node: NodeMetrics
    lags: LagTimes
    held_bytes: Callable[[], int]


class TopicTotals:
    """The traffic of a topic's partitions that are led here."""

    __slots__ = ("partitions", "values")

    def __init__(self) -> None:
        self.partitions = 0
        self.values: tuple[int, ...] = (0,) * len(TOPIC_FAMILIES)
        """In the order of `TOPIC_FAMILIES`."""

    def add(self, partition: Partition) -> None:
        traffic = partition.traffic
        self.partitions += 1
        if traffic.reads or traffic.writes:
            added = (
                traffic.records_in,
                traffic.bytes_in,
                traffic.bytes_out,
                traffic.writes,
                traffic.failed_writes,
                traffic.reads,
                traffic.failed_reads,
            )
            self.values = tuple(map(add, self.values, added))


async def scrape(sources: Sources, *, is_open_metrics: bool) -> list[bytes]:
    """The text of all metrics, in parts.

    cost  some 3 us a partition and 1 us a committed offset, in slices
    """
    exposition = Exposition(is_open_metrics=is_open_metrics)
    services = sources.services
    _broker(exposition, sources)
    await sources.node.write(exposition)
    write_process(exposition, await in_thread(read_process))
    await sources.requests.write(exposition, services.clock.monotonic_ms())
    await _cluster(exposition, services.controller.image, sources)
    await _partitions(exposition, sources)
    await write_groups(exposition, services, sources.lags)
    await pause()
    return exposition.encode()


def _broker(exposition: Exposition, sources: Sources) -> None:
    metrics = sources.services.metrics
    for attribute, name in BROKER_COUNTERS:
        value = getattr(metrics, attribute)
        exposition.counters(counter(name, described(attribute)), [("", value)])
    for attribute, name in BROKER_GAUGES:
        exposition.metric(gauge(name, described(attribute)), getattr(metrics, attribute))
    sessions = sources.services.fetching.sessions
    present = gauge(
        "kafka_server_fetchsessioncache_numincrementalfetchsessions", "Incremental fetch sessions."
    )
    exposition.metric(present, len(sessions))
    evicted = counter(
        "kafka_server_fetchsessioncache_incrementalfetchsessionevictions",
        "Incremental fetch sessions that were evicted.",
    )
    exposition.counters(evicted, [("", sessions.evicted)])
    for name in ("produce", "fetch"):
        family = counter(
            f"kafka_server_brokertopicmetrics_{name}messageconversions",
            "Batches that were converted: none, since old formats are not served.",
        )
        exposition.counters(family, [("", 0)])
    state = gauge("kafka_server_kafkaserver_brokerstate", "3 while the broker serves.")
    exposition.metric(state, RUNNING)
    offline = gauge("kafka_log_logmanager_offlinelogdirectorycount", "Directories that failed.")
    exposition.metric(offline, len(sources.services.logs.offline_directories))
    held = gauge("odradek_held_bytes", "Memory that requests and responses hold.")
    exposition.metric(held, sources.held_bytes())


def described(attribute: str) -> str:
    """The text of a metric of the broker."""
    return f"{attribute.replace('_', ' ').capitalize()} of this broker."


async def _cluster(exposition: Exposition, image: Image, sources: Sources) -> None:
    controller = sources.services.controller
    is_active = controller.is_active
    exposition.metric(
        gauge(
            "kafka_controller_kafkacontroller_activecontrollercount",
            "1 on the broker that is the controller.",
        ),
        int(is_active),
    )
    partition_count = sum(len(topic.partitions) for topic in image.topics.values())
    problems = await cluster_problems(image)
    # Kafka's controller reports these, and every other broker 0.
    for name, text, value in (
        ("offlinepartitionscount", "Partitions without a leader.", len(problems.without_leader)),
        ("globaltopiccount", "Topics of the cluster.", len(image.topics)),
        ("globalpartitioncount", "Partitions of the cluster.", partition_count),
        ("activebrokercount", "Registered brokers.", len(image.brokers)),
        (
            "preferredreplicaimbalancecount",
            "Partitions that another broker than the preferred one leads.",
            problems.not_preferred,
        ),
    ):
        family = gauge(f"kafka_controller_kafkacontroller_{name}", text)
        exposition.metric(family, value if is_active else 0)
    exposition.metric(gauge("kafka_brokers", "Registered brokers."), len(image.brokers))
    family = gauge("kafka_broker_info", "1 for each registered broker.")
    exposition.begin(family)
    for broker_id, broker in image.brokers.items():
        endpoint = broker.endpoints[0]
        labels = {"id": str(broker_id), "address": f"{endpoint.host}:{endpoint.port}"}
        exposition.sample(family, 1, labels)


async def cluster_problems(image: Image) -> ClusterProblems:
    """Partitions of the cluster that cannot be read or written.

    What min.insync.replicas asks for is read of the topic; brokers may have other defaults.
    """
    without_leader: list[tuple[str, int]] = []
    under_min_isr: list[tuple[str, int]] = []
    not_preferred = 0
    for name, topic in image.topics.items():
        required = required_replicas(image, name)
        for number, (index, partition) in enumerate(topic.partitions.items()):
            if number % PARTITIONS_PER_STEP == 0:
                await pause()
            state = partition.state
            if state is None or state.leader < 0:
                without_leader.append((name, index))
                continue
            if state.leader != partition.replicas[0]:
                not_preferred += 1
            if len(state.isr) < min(required, len(partition.replicas)):
                under_min_isr.append((name, index))
    return ClusterProblems(without_leader, under_min_isr, not_preferred)


def required_replicas(image: Image, topic: str) -> int:
    """min.insync.replicas of a topic that sets it, otherwise 1."""
    text = image.topic_config(topic).get("min.insync.replicas", "")
    return int(text) if text.isdecimal() and len(text) < 10 else 1


def chunks(partitions: Iterator[Partition]) -> Iterator[Sequence[Partition]]:
    """Partitions of one step."""
    while chunk := list(islice(partitions, PARTITIONS_PER_STEP)):
        yield chunk


async def _partitions(exposition: Exposition, sources: Sources) -> None:
    services = sources.services
    image = services.controller.image
    rows: list[tuple[str, tuple[float, ...]]] = []
    led: list[tuple[str, tuple[int, ...]]] = []
    totals: dict[str, TopicTotals] = {}
    sums = [0] * len(LED_FAMILIES)
    topic = before_index = ""
    # A copy: partitions come and go between the steps.
    for chunk in chunks(iter(list(services.partitions.all()))):
        for partition in chunk:
            if partition.topic != topic:
                topic = partition.topic
                # The cost of a label is that of its escapes.
                before_index = f'{label_text({"topic": topic})[:-1]},partition="'
            labels = f'{before_index}{partition.index}"}}'
            rows.append((labels, log_values(partition)))
            values = led_values(partition, image)
            if values is None:
                continue
            led.append((labels, values))
            sums = [total + value for total, value in zip(sums, values, strict=True)]
            totals.setdefault(partition.topic, TopicTotals()).add(partition)
        await pause()
    _replica_manager(exposition, len(rows), len(led), sums)
    await _families(exposition, PARTITION_FAMILIES, rows)
    await _families(exposition, LED_FAMILIES, led)
    await write_topics(exposition, sources, totals)


def log_values(partition: Partition) -> tuple[int, ...]:
    """In the order of `PARTITION_FAMILIES`."""
    log = partition.log
    return (
        log.segments.size_bytes(),
        len(log.segments),
        log.log_start_offset,
        log.end_offset,
        log.log_start_offset,
        log.high_watermark,
    )


def led_values(partition: Partition, image: Image) -> tuple[int, ...] | None:
    """In the order of `LED_FAMILIES`; None where another broker leads."""
    leader = partition.leader
    if leader is None:
        return None
    replicas, in_sync = 1 + len(leader.followers), len(leader.in_sync.committed)
    required = min(partition.log.config.min_insync_replicas, replicas)
    is_under_replicated = 1 if in_sync < replicas else 0
    placed = image.partition(partition.topic, partition.index)
    is_preferred = placed is None or placed.replicas[0] == partition.leader_id
    return (
        replicas,
        in_sync,
        is_under_replicated,
        1 if in_sync < required else 0,
        1 if in_sync == required else 0,
        replicas,
        in_sync,
        is_under_replicated,
        1 if is_preferred else 0,
    )


async def _families(
    exposition: Exposition, families: Sequence[Family], rows: Sequence[tuple[str, Sequence[float]]]
) -> None:
    labels = [label for label, _ in rows]
    columns = tuple(zip(*(values for _, values in rows), strict=True)) or ((),) * len(families)
    for family, column in zip(families, columns, strict=True):
        await exposition.family(family, list(zip(labels, column, strict=True)))


def _replica_manager(
    exposition: Exposition, held_count: int, led_count: int, sums: Sequence[int]
) -> None:
    for name, text, value in (
        ("partitioncount", "Replicas on this broker.", held_count),
        ("leadercount", "Partitions that this broker leads.", led_count),
        ("underreplicatedpartitions", "Led with a replica out of sync.", sums[_UNDER_REPLICATED]),
        ("underminisrpartitioncount", "Below min.insync.replicas.", sums[_UNDER_MIN_ISR]),
        ("atminisrpartitioncount", "At min.insync.replicas exactly.", sums[_AT_MIN_ISR]),
    ):
        exposition.metric(gauge(f"kafka_server_replicamanager_{name}", text), value)


async def write_topics(
    exposition: Exposition, sources: Sources, totals: Mapping[str, TopicTotals]
) -> None:
    """The traffic of each topic; one topic for each partition is what it has to bear."""
    metrics, times = sources.services.metrics, sources.requests.times
    # All topics together do not fall when a topic is deleted.
    every_topic = (
        metrics.records_in,
        metrics.records_bytes_in,
        metrics.records_bytes_out,
        *times.totals(ApiKey.PRODUCE),
        *times.totals(ApiKey.FETCH),
    )
    labelled: list[tuple[str, TopicTotals]] = []
    for topic, total in totals.items():
        labelled.append((label_text({"topic": topic}), total))
        if len(labelled) % PARTITIONS_PER_STEP == 0:
            await pause()
    for position, family in enumerate(TOPIC_FAMILIES):
        rows = [("", every_topic[position])]
        rows += ((labels, total.values[position]) for labels, total in labelled)
        for each in (family, per_second(family)):
            await exposition.family(each, rows)
    partitions = gauge("kafka_topic_partitions", "Partitions of a topic that are led here.")
    await exposition.family(partitions, [(labels, total.partitions) for labels, total in labelled])
