"""A broker that passes for a release of Apache Kafka serves what that one was recorded to serve."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.handlers.shared.table import HANDLERS
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.testing import Broker, BrokerFailed, Cluster
from tests.clients.contract import EARLIEST, How
from tests.clients.libraries import connect
from tests.clients.records import build_messages, expect
from tests.scripts import release_versions
from tests.support.wire import Wire

RECORDED = {"2.8": "2.8.2", "3.9": "3.9.2", "4.3": "4.3.0"}
PYTHON = ("kafka-python", "aiokafka", "confluent-kafka")

pytestmark = pytest.mark.client


@pytest.fixture(scope="module", params=RECORDED)
def release(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def broker(release: str) -> Iterator[Broker]:
    with Broker(as_release=release) as running:
        yield running


def test_ranges_are_those_of_the_release_as_far_as_they_are_served(
    release: str, broker: Broker
) -> None:
    recorded = release_versions.read(RECORDED[release])
    response = release_versions.api_versions(broker.bootstrap_servers)
    ranges = release_versions.ranges(response)
    served = {ApiKey(api.key).name for api in HANDLERS if not api.needs_quorum}
    assert set(ranges) == served & set(recorded["api_versions"])
    lowest = {
        ApiKey(api.key).name: api.min_version
        if api.advertised_min_version is None
        else api.advertised_min_version
        for api in HANDLERS
    }
    highest = {ApiKey(api.key).name: api.max_version for api in HANDLERS}
    for name, (least, most) in ranges.items():
        theirs = recorded["api_versions"][name]
        assert least == max(theirs[0], lowest[name]), name
        assert most == min(theirs[1], highest[name]), name
    features = release_versions.features(response)
    assert features == {
        name: levels
        for name, levels in recorded["features"].items()
        if name == "transaction.version"
    }


def test_versions_that_the_release_does_not_serve_close_the_connection(
    release: str, broker: Broker
) -> None:
    recorded = release_versions.read(RECORDED[release])["not_served"]
    assert recorded
    for name, outcome in recorded.items():
        api, version = name.split(" v")
        got = release_versions.response_to(broker.bootstrap_servers, ApiKey[api], int(version))
        assert got == outcome, name


def test_api_versions_beyond_the_release_has_its_range_in_the_error() -> None:
    with Broker(as_release="2.8") as broker, Wire(broker.bootstrap_servers) as wire:
        request = ApiVersionsRequest(client_software_name="wire", client_software_version="1")
        wire.send(request, 4)
        response: Any = wire.receive(ApiKey.API_VERSIONS, 0)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    (row,) = response.api_keys
    assert (row.api_key, row.min_version, row.max_version) == (ApiKey.API_VERSIONS, 0, 3)


@pytest.mark.parametrize("library", PYTHON)
def test_client_libraries_work_with_each_release(
    broker: Broker, library: str, tmp_path: Path
) -> None:
    round_trip(library, broker, tmp_path)


def test_java_client_of_4_3_works_with_2_8(tmp_path: Path) -> None:
    with Broker(as_release="2.8") as broker:
        round_trip("java-4.3.0", broker, tmp_path)


def round_trip(library: str, broker: Broker, folder: Path) -> None:
    client = connect(library, broker.bootstrap_servers, folder)
    try:
        topic = broker.create_topic(f"{library}-orders")
        sent = build_messages(client.abilities, 0)
        client.produce(topic, sent, How(acks="all", idempotent=client.abilities.idempotent))
        reader = client.read(topic, 0, EARLIEST, len(sent))
        expect(sent, reader.messages(), first_offset=0, timed=client.abilities.chooses_timestamps)
    finally:
        client.close()


def test_brokers_of_a_cluster_that_passes_for_2_8_replicate(tmp_path: Path) -> None:
    with Cluster(2, as_release="2.8") as cluster:
        topic = cluster.create_topic("orders", configs={"min.insync.replicas": "2"})
        client = connect("kafka-python", cluster.bootstrap_servers, tmp_path)
        try:
            client.produce(topic, build_messages(client.abilities, 0), How(acks="all"))
        finally:
            client.close()
        assert cluster.records(topic, 1)


def test_unknown_release_is_refused_in_one_line() -> None:
    with pytest.raises(BrokerFailed, match=r"Expected one of 2\.8, 3\.9, 4\.3"):
        Broker({"odradek.api.versions": "1.0"}).start()


def test_api_report_has_the_versions_that_each_client_used(tmp_path: Path) -> None:
    file = tmp_path / "apis.json"
    with Broker({"odradek.api.report": str(file)}, as_release="2.8") as broker:
        round_trip("kafka-python", broker, tmp_path)
    rows = json.loads(file.read_text())
    of_library = [row for row in rows if row["client_software_name"] == "kafka-python"]
    produced = [row for row in of_library if row["api"] == "Produce"]
    assert produced
    assert all(row["count"] >= 1 and row["version"] == 9 for row in produced)
    assert {row["client_id"] for row in rows} >= {"odradek-testing"}
