"""Each page over a broker of Apache Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.support.apache import apache_node
from tests.support.compacted import wait_until
from tests.web_console.console_process import WAIT_S, commit, create_topics, produce, web_console

pytestmark = [pytest.mark.client, pytest.mark.judge]


def controller(address: str) -> int:
    """The id of the controller, as a new client learns it; -1: there is none."""
    client = AdminClient({"bootstrap.servers": address})
    return int(client.list_topics(timeout=WAIT_S).controller_id)


def test_pages_show_what_a_broker_of_apache_kafka_has(tmp_path: Path) -> None:
    with apache_node(tmp_path) as node:
        # A client that has met no controller looks for it again after minutes.
        wait_until("there is a controller", lambda: controller(node.address) >= 0)
        create_topics(node.address, {"orders": 2})
        produce(node.address, "orders", [("k1", "v1"), ("k2", "v2")])
        commit(node.address, "billing", "orders", 0)
        with web_console(tmp_path, ["--bootstrap-server", f"a={node.address}"]) as console:
            (broker,) = console.json("/clusters/a/brokers")["brokers"]
            assert broker["address"] == node.address
            assert broker["is_controller"]
            wait_until(
                "log directories",
                lambda: console.json("/clusters/a/brokers")["brokers"][0]["directories"],
            )
            configs = console.json(f"/clusters/a/brokers/{broker['id']}")["configs"]
            assert {"log.dirs", "num.partitions"} <= {row["name"] for row in configs}
            (topic,) = console.json("/clusters/a/topics")["topics"]["rows"]
            assert (topic["name"], topic["partitions"], topic["records_max"]) == ("orders", 2, 2)
            records = console.json("/clusters/a/topics/orders/records?key=k2")["records"]
            assert [row["value"] for row in records] == ["v2"]
            group = console.json("/clusters/a/group?id=billing")
            assert group["partitions"]["rows"][0]["committed"] == 0
            assert console.json("/clusters/a/access")["users"] == []
            assert console.json("/clusters/a/topics/orders/configs")["configs"]
            assert console.json("/clusters/a")["health"]["offline"] == 0
