"""A broker's metrics and health over HTTP, read as Prometheus reads them."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_open_metrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_prometheus

from odradek.broker.node.monitoring import METRICS_LISTENER
from tests.support.broker_process import BrokerProcess, odradek_broker
from tests.support.compacted import wait_until
from tests.support.ports import free_port

with warnings.catch_warnings():
    # Its import reads resources in a deprecated way.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer
    from kafka import TopicPartition as KafkaTopicPartition

pytestmark = pytest.mark.client

RECORD_COUNT = 250
GROUP = 'readers of "it"'
WAIT_S = 60.0
DIRTY = {"topic": "events", "partition": "1"}


class Response(NamedTuple):
    status: int
    content_type: str
    text: str


def get(port: int, path: str, *, method: str = "GET", accept: str = "*/*") -> Response:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
    try:
        connection.request(method, path, headers={"Accept": accept})
        response = connection.getresponse()
        text = response.read().decode()
        return Response(response.status, response.headers["Content-Type"], text)
    finally:
        connection.close()


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in parse_prometheus(text)
        for sample in family.samples
    }


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, int]]:
    """A broker with a topic that was written and read, and the port of its metrics."""
    port = free_port()
    overrides = {METRICS_LISTENER: str(port), "group.initial.rebalance.delay.ms": "0"}
    with odradek_broker(tmp_path_factory.mktemp("broker"), overrides=overrides) as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        admin.create_topics([NewTopic("events", 2, 1)])["events"].result(WAIT_S)
        producer = Producer({"bootstrap.servers": broker.address})
        for number in range(RECORD_COUNT):
            producer.produce("events", str(number).encode(), partition=1)
        assert producer.flush(WAIT_S) == 0
        consumer = Consumer(
            {"bootstrap.servers": broker.address, "group.id": GROUP, "enable.auto.commit": False}
        )
        place = TopicPartition("events", 1, 0)
        consumer.assign([place])
        assert len(consumer.consume(RECORD_COUNT, WAIT_S)) == RECORD_COUNT
        consumer.commit(offsets=[TopicPartition("events", 1, 200)], asynchronous=False)
        consumer.close()
        yield broker, port


def test_traffic_offsets_and_lag_are_what_was_sent(served: tuple[BrokerProcess, int]) -> None:
    _, port = served
    response = get(port, "/metrics")
    assert (response.status, response.content_type[:25]) == (200, "text/plain; version=0.0.4")
    values = samples(response.text)

    def value(name: str, **labels: str) -> float:
        return values[name, tuple(sorted(labels.items()))]

    traffic = "kafka_server_brokertopicmetrics"
    assert value(f"{traffic}_messagesin_total", topic="events") == RECORD_COUNT
    assert value(f"{traffic}_bytesin_total", topic="events") == value("kafka_log_log_size", **DIRTY)
    assert value(f"{traffic}_bytesout_total", topic="events") >= value(
        f"{traffic}_bytesin_total", topic="events"
    )
    # What every topic has together includes the internal topic of the offsets.
    for name in ("messagesin", "bytesin", "bytesout"):
        assert value(f"{traffic}_{name}_total") >= value(f"{traffic}_{name}_total", topic="events")
    assert value("kafka_log_log_logendoffset", **DIRTY) == RECORD_COUNT
    assert value("kafka_log_log_logendoffset", topic="events", partition="0") == 0
    assert value("kafka_topic_partition_current_offset", **DIRTY) == RECORD_COUNT
    assert value("kafka_consumergroup_current_offset", consumergroup=GROUP, **DIRTY) == 200
    assert value("kafka_consumergroup_lag", consumergroup=GROUP, **DIRTY) == RECORD_COUNT - 200
    assert value("kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert value("kafka_server_replicamanager_underreplicatedpartitions") == 0
    assert value("kafka_cluster_partition_insyncreplicascount", **DIRTY) == 1
    assert value("kafka_cluster_partition_atminisr", **DIRTY) == 1
    listener = {"listener": "PLAINTEXT", "networkProcessor": "0", "network_processor": "0"}
    assert value("kafka_server_socketservermetrics_connection_count", **listener) >= 1
    assert value("kafka_server_socket_server_metrics_connection_creation_total", **listener) >= 2
    assert value(f"{traffic}_totalproducerequests_total", topic="events") >= 1
    assert value(f"{traffic}_totalfetchrequests_total", topic="events") >= 1
    assert value(f"{traffic}_failedproducerequests_total", topic="events") == 0
    assert value("kafka_consumergroup_lag_sum", consumergroup=GROUP, topic="events") == 50
    assert value("kafka_topic_partitions", topic="events") == 2
    assert value("kafka_topic_partition_leader_is_preferred", **DIRTY) == 1
    assert value("kafka_coordinator_group_groupmetadatamanager_numgroupsempty") == 1
    assert 10 < value("process_open_fds") < value("process_max_fds")
    assert value("process_cpu_seconds_total") > 0
    assert 0 <= value("kafka_network_socketserver_networkprocessoravgidle_percent") <= 1


def test_requests_are_counted_by_api_version_error_and_time(
    served: tuple[BrokerProcess, int],
) -> None:
    broker, port = served
    requests = "kafka_network_requestmetrics"
    consumer = Consumer(
        {"bootstrap.servers": broker.address, "group.id": "waits", "fetch.wait.max.ms": 400}
    )
    consumer.assign([TopicPartition("events", 0, 0)])
    admin = AdminClient({"bootstrap.servers": broker.address})
    with pytest.raises(KafkaException):
        admin.describe_topics(TopicCollection(["absent"]))["absent"].result(WAIT_S)

    def fetches() -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """All samples, once a Fetch has waited in vain."""
        consumer.poll(0.1)
        values = samples(get(port, "/metrics").text)
        key = (f"{requests}_remotetimems", (("quantile", "0.999"), ("request", "FetchConsumer")))
        return values if values[key] > 300 else {}

    wait_until("a Fetch that waits", lambda: bool(fetches()))
    values = fetches()
    consumer.close()

    def value(name: str, **labels: str) -> float:
        return values[f"{requests}_{name}", tuple(sorted(labels.items()))]

    # It had no records within 400 ms.
    waited_ms = value("remotetimems", request="FetchConsumer", quantile="0.999")
    assert waited_ms >= 400 * 0.93
    assert value("totaltimems", request="FetchConsumer", quantile="0.999") >= waited_ms
    assert value("totaltimems", request="Fetch", quantile="0.999") >= waited_ms
    assert 0 < value("totaltimems", request="Produce", quantile="0.5") < 1_000 * WAIT_S
    assert value("remotetimems", request="ApiVersions", quantile="0.999") == 0
    mean_bytes = value("requestbytes_sum", request="Produce") / value(
        "requestbytes_count", request="Produce"
    )
    assert mean_bytes > 60
    by_version = {
        labels: count
        for (name, labels), count in values.items()
        if name == f"{requests}_requests_total"
    }
    produced = {
        dict(labels)["version"]: count
        for labels, count in by_version.items()
        if dict(labels)["request"] == "Produce"
    }
    assert sum(produced.values()) == value("totaltimems_count", request="Produce") >= 1
    assert value("errors_total", request="Produce", error="NONE") == sum(produced.values())
    assert value("errors_total", request="Metadata", error="UNKNOWN_TOPIC_OR_PARTITION") >= 1
    assert value("errorspersec", request="Metadata", error="UNKNOWN_TOPIC_OR_PARTITION") >= 1


def test_incremental_fetch_sessions_are_counted(served: tuple[BrokerProcess, int]) -> None:
    broker, port = served

    def count() -> float:
        text = get(port, "/metrics").text
        return samples(text)["kafka_server_fetchsessioncache_numincrementalfetchsessions", ()]

    assert count() == 0, "librdkafka fetches without sessions"
    with closing(KafkaConsumer(bootstrap_servers=broker.address)) as consumer:
        consumer.assign([KafkaTopicPartition("events", 1)])

        def has_session() -> bool:
            consumer.poll(100)
            return count() == 1

        wait_until("an incremental fetch session", has_session)


def test_open_metrics_and_json_have_the_samples_of_the_text(
    served: tuple[BrokerProcess, int],
) -> None:
    _, port = served
    steady = "kafka_log_log_logendoffset"
    text = samples(get(port, "/metrics").text)
    response = get(port, "/metrics", accept="application/openmetrics-text; version=1.0.0")
    assert response.content_type.startswith("application/openmetrics-text")
    families = list(parse_open_metrics(response.text))  # type: ignore[no-untyped-call]
    open_names = [sample.name for family in families for sample in family.samples]
    assert dict.fromkeys(open_names) == dict.fromkeys(name for name, _ in text)
    rows = json.loads(get(port, "/metrics.json").text)
    assert list(rows) == list(dict.fromkeys(open_names))
    assert {
        (steady, tuple(sorted(row["labels"].items()))): row["value"] for row in rows[steady]
    } == {key: value for key, value in text.items() if key[0] == steady}
    groups = {row["labels"]["consumergroup"] for row in rows["kafka_consumergroup_lag"]}
    assert groups == {GROUP}


def test_health_is_good_and_other_requests_are_refused(served: tuple[BrokerProcess, int]) -> None:
    _, port = served
    for path in ("/health/live", "/health/ready", "/health/cluster"):
        response = get(port, path)
        assert (response.status, json.loads(response.text)) == (
            200,
            {"status": "ok", "reasons": []},
        )
    assert get(port, "/metrics", method="HEAD")[::2] == (200, "")
    assert get(port, "/metrics", method="POST").status == 405
    assert get(port, "/etc/passwd").status == 404


@pytest.mark.parametrize(
    "sent", [b"\x00\x00\x00\x14\x00\x12\x00\x03", b"GET /metrics\r\n\r\n", b"G" * 100_000]
)
def test_what_is_not_http_ends_its_connection_only(
    served: tuple[BrokerProcess, int], sent: bytes
) -> None:
    broker, port = served
    with (
        socket.create_connection(("127.0.0.1", port), WAIT_S) as slow,
        socket.create_connection(("127.0.0.1", port), WAIT_S) as other,
    ):
        slow.sendall(b"GET /metrics HT")  # and then nothing
        other.sendall(sent)
        other.shutdown(socket.SHUT_WR)
        received = b""
        while part := other.recv(4096):
            received += part
        assert b"200 OK" not in received
        assert get(port, "/health/ready").status == 200
    metadata = AdminClient({"bootstrap.servers": broker.address}).list_topics(timeout=WAIT_S)
    assert "events" in metadata.topics


def test_scrapes_at_once_each_get_a_response(served: tuple[BrokerProcess, int]) -> None:
    _, port = served
    connections = [socket.create_connection(("127.0.0.1", port), WAIT_S) for _ in range(20)]
    for connection in connections:
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    for connection in connections:
        with connection, connection.makefile("rb") as stream:
            assert b"\nkafka_brokers 1" in stream.read()


def test_broker_without_a_log_directory_says_that_it_is_not_ready(tmp_path: Path) -> None:
    port = free_port()
    folders = [tmp_path / "a", tmp_path / "b"]
    overrides = {
        METRICS_LISTENER: f"localhost:{port}",
        "log.dirs": ",".join(map(str, folders)),
        "replica.high.watermark.checkpoint.interval.ms": "200",
    }
    with odradek_broker(tmp_path, overrides=overrides) as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        admin.create_topics([NewTopic("t", 4, 1)])["t"].result(WAIT_S)
        folders[1].rename(tmp_path / "moved away")
        # The next checkpoint cannot be written.
        wait_until("a failed directory", lambda: get(port, "/health/ready").status == 503)
        reasons = json.loads(get(port, "/health/ready").text)["reasons"]
        assert reasons == [f"the log directory {folders[1]} is offline"]
        assert get(port, "/health/live").status == 200


def test_address_in_use_stops_the_start_with_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        broker = BrokerProcess(tmp_path, overrides={METRICS_LISTENER: str(port)})
        result = subprocess.run(
            broker.command(), capture_output=True, text=True, timeout=WAIT_S, check=False
        )
    assert result.returncode == 1
    assert f"cannot listen on {METRICS_LISTENER} {port}: Address already in use" in result.stderr
    assert not broker.data.exists()
