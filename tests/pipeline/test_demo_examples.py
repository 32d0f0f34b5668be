"""The pipelines of config/pipelines: each passes the check and writes the expected output."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from odradek.pipeline.jobs import run
from odradek.pipeline.spec.load import load
from tests.pipeline.feeding import at
from tests.pipeline.topics import consume, produce
from tests.support.broker_process import BrokerProcess

FOLDER = Path(__file__).parents[2] / "config" / "pipelines"
FILES = sorted(FOLDER.glob("*.toml"))
LATER_S = 100_000
"""The time of a row that advances the watermark beyond all others."""


def lines(values: list[dict[str, object]]) -> list[bytes]:
    """JSON objects as the values of records."""
    return [json.dumps(value).encode() for value in values]


def values_of(broker: BrokerProcess, topic: str, count: int) -> list[dict[str, Any]]:
    """The first JSON objects of a topic."""
    values = [json.loads(value or b"") for _, value, _ in consume(broker.address, topic, count)]
    assert len(values) == count
    return values


def table(path: Path, query: str) -> list[Any]:
    """Rows of a database."""
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


LOGS = [
    f"{at(1)} INFO shop: opened".encode(),
    f"{at(2)} ERROR checkout: payment refused: card".encode(),
    f"{at(3)} INFO shop: one came in".encode(),
    b"no entry \xff",
    f"{at(LATER_S)} INFO shop: closed".encode(),
]


def check_logs(spark: SparkSession, broker: BrokerProcess, folder: Path) -> None:
    """Check errors, counts and archive."""
    (error,) = values_of(broker, "log-errors", 1)
    assert (error["level"], error["service"]) == ("ERROR", "checkout")
    query = "SELECT service, level, lines FROM lines_per_minute ORDER BY 1"
    assert table(folder / "logs.db", query) == [("checkout", "ERROR", 1), ("shop", "INFO", 2)]
    archived = spark.read.parquet(str(folder / "archive" / "logs"))
    assert archived.count() == len(LOGS)
    assert archived.where("day IS NULL").count() == 1


VIEWS = lines(
    [
        {"user": "ann", "page": "/a", "at": at(1)},
        {"user": "bob", "page": "/b", "at": at(2)},
        {"user": "ann", "page": "/b", "at": at(30)},
        {"user": "cy", "page": "/late", "at": at(LATER_S)},
        {"user": "dee"},
    ]
)


def check_site(spark: SparkSession, broker: BrokerProcess, folder: Path) -> None:
    """Check pages, partitions and visits; other events are ignored."""
    pages = values_of(broker, "hot-pages", 2)
    assert sorted((page["rank"], page["page"], page["count"]) for page in pages) == [
        (1, "/b", 2),
        (2, "/a", 1),
    ]
    (partition,) = values_of(broker, "hot-partitions", 1)
    assert (partition["source"], partition["count"], partition["share"]) == (0, 3, 1.0)
    visits = {
        visit["user"]: (visit["pages"], visit["first_page"])
        for visit in values_of(broker, "visits", 2)
    }
    assert visits == {"ann": (2, "/a"), "bob": (1, "/b")}
    ((_, value, headers),) = consume(broker.address, "page-views-rejected", 1)
    assert (value, headers["odradek.reason"]) == (VIEWS[-1], b"page is missing")


READINGS = lines(
    [{"sensor": "s1", "value": 20.0 + place % 3, "at": at(place)} for place in range(30)]
    + [{"sensor": "s1", "value": 90.0, "at": at(40)}] * 2
    + [{"sensor": "s1", "value": 20.0, "at": at(LATER_S)}]
)


def check_iot(spark: SparkSession, broker: BrokerProcess, folder: Path) -> None:
    """Check one alarm for a duplicate reading, and sliding means of five minutes."""
    alarms = consume(broker.address, "sensor-alarms", 1)
    assert [(key, json.loads(value or b"")["value"]) for key, value, _ in alarms] == [(b"s1", 90.0)]
    rows = table(folder / "readings.db", "SELECT readings, least, greatest FROM means")
    assert rows == [(32, 20.0, 90.0)] * 5


CUSTOMERS = [
    b'1," ANN LEE ",Ann@Example.org,4000123412341234,1990-01-02\n',
    b"0,zero,zero@example.org,,",
    b"2,bob,nowhere,,",
    b"x,cy,cy@example.org,,",
    b"3,dee,,,",
]


def check_cleaning(spark: SparkSession, broker: BrokerProcess, folder: Path) -> None:
    """Check one valid customer, and two dead letters with their reasons."""
    ((key, value, _),) = consume(broker.address, "customers", 1)
    assert (key, json.loads(value or b"")) == (
        b"1",
        {
            "id": 1,
            "name": "Ann Lee",
            "mail": "ann@example.org",
            "card": "************1234",
            "born": "1990-01-02",
        },
    )
    rejected = consume(broker.address, "customers-rejected", 2)
    reasons = sorted(headers["odradek.reason"] for _, _, headers in rejected)
    assert reasons == [b"id is not INT", b"mail is missing"]


ORDERS = lines(
    [
        {"id": 1, "amount": 2.5, "state": "accepted"},
        {"id": 2, "amount": 9.0, "state": "refused"},
        {"id": 3, "amount": 4.0, "state": "accepted"},
        {"amount": 4.0, "state": "accepted"},
    ]
)


def check_exactly_once(spark: SparkSession, broker: BrokerProcess, folder: Path) -> None:
    """Check the committed records."""
    orders = values_of(broker, "orders-accepted", 2)
    assert sorted((order["id"], order["amount"]) for order in orders) == [(1, 2.5), (3, 4.0)]


SHOP_ORDERS = lines(
    [
        {"id": 1, "shop": 1, "amount": 2.5},
        {"id": 2, "shop": 1, "amount": 1000.0},
        {"id": 3, "shop": 9, "amount": 5000.0},
        {"shop": 1},
    ]
)


def check_enrichment(spark: SparkSession, broker: BrokerProcess, folder: Path) -> None:
    """Check the orders with the names of their shops, the large ones, and a dead letter."""
    archived = spark.read.parquet(str(folder / "archive" / "shop-orders")).collect()
    assert sorted((row.id, row.shop, row.country) for row in archived) == [
        (1, "Ann's", "NL"),
        (2, "Ann's", "NL"),
        (3, None, None),
    ]
    alerts = values_of(broker, "large-shop-orders", 2)
    assert sorted((alert["id"], alert.get("shop")) for alert in alerts) == [(2, "Ann's"), (3, None)]
    ((_, value, headers),) = consume(broker.address, "shop-orders-rejected", 1)
    assert (value, headers["odradek.reason"]) == (SHOP_ORDERS[-1], b"id is missing")


NEWS = lines(
    [
        {"title": "flood", "tags": ["sport"], "priority": 9},
        {"title": "goal", "tags": ["sport"], "priority": 1},
        {"title": "tax"},
    ]
)


def check_subscription(spark: SparkSession, broker: BrokerProcess, folder: Path) -> None:
    """Check that each record is in the topic of the first matching rule."""
    for topic, title in (("urgent", "flood"), ("sport", "goal"), ("rest", "tax")):
        (subscriber,) = values_of(broker, f"subscribers-{topic}", 1)
        assert subscriber["title"] == title


CHANGES = lines(
    [
        {"account": "a", "amount": 10.50, "at": at(1)},
        {"account": "b", "amount": 1, "at": at(2)},
        {"account": "a", "amount": -0.25, "at": at(3)},
    ]
)


def check_persistence(spark: SparkSession, broker: BrokerProcess, folder: Path) -> None:
    """Check all changes and the last states."""
    rows = table(
        folder / "accounts.db", "SELECT account, balance, changes FROM balances ORDER BY 1"
    )
    assert [(name, float(balance), count) for name, balance, count in rows] == [
        ("a", 10.25, 2),
        ("b", 1.0, 1),
    ]
    history = spark.read.parquet(str(folder / "archive" / "account-changes"))
    assert sorted(row.offset for row in history.collect()) == [0, 1, 2]


Check = Callable[[SparkSession, BrokerProcess, Path], None]
RUNS: dict[str, tuple[str, list[bytes], Check]] = {
    "cleaning": ("customers-raw", CUSTOMERS, check_cleaning),
    "enrichment": ("shop-orders", SHOP_ORDERS, check_enrichment),
    "exactly_once": ("orders-raw", ORDERS, check_exactly_once),
    "iot_events": ("readings", READINGS, check_iot),
    "logs": ("logs", LOGS, check_logs),
    "persistence": ("account-changes", CHANGES, check_persistence),
    "site_activity": ("page-views", VIEWS, check_site),
    "subscription": ("news.local", NEWS, check_subscription),
}


WITH_SERVERS = {"registry"}
"""Examples that need more than a broker: test_registry.py runs them."""


def test_every_example_has_a_test_run() -> None:
    assert {path.stem for path in FILES} == RUNS.keys() | WITH_SERVERS


@pytest.mark.parametrize("name", RUNS)
def test_example_writes_the_expected_output(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path, name: str
) -> None:
    topic, records, check = RUNS[name]
    produce(broker.address, topic, records)
    path = Path(shutil.copy(FOLDER / f"{name}.toml", tmp_path))
    path.write_text(path.read_text().replace("127.0.0.1:9092", broker.address))
    (tmp_path / "shops").mkdir()
    (tmp_path / "shops" / "0.csv").write_text("shop,name,country\n1,Ann's,NL\n")
    pipeline = load(path)
    head = pipeline.pipeline.model_copy(update={"mode": "available_now", "trigger": None})
    pipeline = pipeline.model_copy(update={"pipeline": head})
    built = run.build(spark, pipeline, tmp_path)
    run.run_stream(built, say=print)
    check(spark, broker, tmp_path)
