"""Changes of a table, from a topic into a table: events of Debezium, and tombstones."""

from __future__ import annotations

import json
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from odradek.pipeline.jobs import run
from odradek.pipeline.spec.load import parse
from odradek.pipeline.spec.problems import SpecError
from tests.pipeline.crashes import READ_TIMEOUT_S, create_topics, read_records
from tests.support.broker_process import BrokerProcess

KEYS = 6
CHANGES = 60
FILE = """\
[pipeline]
name = "changes"
mode = "available_now"
checkpoint = "state"

[clusters.main]
bootstrap_servers = "{address}"

[sources.changes]
kind = "kafka"
cluster = "main"
subscribe = ["{topic}"]
max_offsets_per_trigger = 25
{steps}
[sinks.stored]
kind = "jdbc"
from = "parsed"
url = "jdbc:sqlite:shop.db"
table = "customers"
keys = ["id"]
latest_by = "offset"
delete_by = "deleted"
omit = ["offset"]
"""
DEBEZIUM = """
[steps.parsed]
kind = "parse"
from = "changes"
format = "json"
envelope = "debezium"
tombstones = "drop"
schema = "id BIGINT NOT NULL, name STRING NOT NULL, credit DOUBLE"
keep = ["offset"]
rejects = "{topic}-rejects"
rejects_cluster = "main"
"""
COMPACTED = """
[steps.keyed]
kind = "map"
from = "changes"
columns = {{ id = "CAST(CAST(key AS STRING) AS BIGINT)" }}

[steps.parsed]
kind = "parse"
from = "keyed"
format = "json"
tombstones = "keep"
schema = "name STRING NOT NULL, credit DOUBLE"
keep = ["id", "offset"]
"""
BAD = (
    (b"{", "not JSON"),
    (b'{"id": 1}', "no change event of Debezium: no op"),
    (b'{"op": "t"}', "no change of a row: op t"),
    (b'{"op": "d"}', "before is missing"),
    (b'{"op": "u", "before": {"id": 1}}', "after is missing"),
    (b'{"op": "c", "after": {"id": "x", "name": "n"}}', "id is not BIGINT"),
    (b'{"op": "c", "after": {"id": 1}}', "name is missing"),
)


def test_debezium_changes_of_rows_end_in_the_table_and_others_in_dead_letters(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    chance = random.Random(1)
    table: dict[int, dict[str, Any]] = {}
    sent: list[tuple[bytes, bytes | None]] = []
    for number in range(CHANGES):
        key = chance.randrange(KEYS)
        before = table.get(key)
        if before is not None and chance.random() < 0.4:
            del table[key]
            # With PostgreSQL's default replica identity Debezium knows the key only.
            seen = before if number % 2 else {"id": key, "name": None, "credit": None}
            event: dict[str, Any] = {"before": seen, "after": None, "op": "d"}
        else:
            after = {"id": key, "name": f'n{number} "{{', "credit": number / 4, "more": [1]}
            table[key] = after
            op = "c" if before is None else "u"
            event = {"before": before, "after": after, "op": op, "ts_ms": 1, "source": {"a": 1}}
        value = event if number % 3 else {"schema": {"type": "struct"}, "payload": event}
        sent.append((b"%d" % key, json.dumps(value).encode()))
        if event["op"] == "d":
            sent.append((b"%d" % key, None))
    rows = stored(spark, broker.address, tmp_path, "debezium", DEBEZIUM, sent, BAD)
    assert rows == sorted((row["id"], row["name"], row["credit"]) for row in table.values())
    letters = read_records(broker.address, "debezium-rejects")
    reasons = {letter.value(): dict(letter.headers() or [])["odradek.reason"] for letter in letters}
    assert reasons == {value: reason.encode() for value, reason in BAD}


def test_tombstones_of_a_compacted_topic_delete_rows(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    chance = random.Random(2)
    table: dict[int, tuple[str, float]] = {}
    sent: list[tuple[bytes, bytes | None]] = []
    for number in range(CHANGES):
        key = chance.randrange(KEYS)
        value = None
        if chance.random() < 0.4:
            table.pop(key, None)
        else:
            table[key] = (f"n{number}", number / 4)
            value = json.dumps(dict(zip(("name", "credit"), table[key], strict=True))).encode()
        sent.append((b"%d" % key, value))
    rows = stored(spark, broker.address, tmp_path, "compacted", COMPACTED, sent)
    assert rows == sorted((key, *row) for key, row in table.items())


UNKNOWN = "__debezium_unavailable_value"


def test_placeholders_are_never_texts_in_a_table(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    events = [
        {"op": "c", "after": {"id": 1, "name": "a", "credit": 1.5}},
        {"op": "u", "after": {"id": 1, "name": UNKNOWN, "credit": 2.5}},
    ]
    sent: list[tuple[bytes, bytes | None]] = [
        (b"1", json.dumps(event).encode()) for event in events
    ]
    rows = stored(spark, broker.address, tmp_path / "rejected", "rejected", DEBEZIUM, sent)
    assert rows == [(1, "a", 1.5)]
    (letter,) = read_records(broker.address, "rejected-rejects")
    headers = dict(letter.headers() or [])
    assert headers["odradek.reason"] == b"name is not known: a placeholder"
    keeping = DEBEZIUM + 'unavailable = "keep"\n'
    sinks = FILE + 'keep_by = "unavailable"\n'
    rows = stored(spark, broker.address, tmp_path / "kept", "kept", keeping, sent, file=sinks)
    assert rows == [(1, "a", 2.5)]


def stored(
    spark: SparkSession,
    address: str,
    folder: Path,
    topic: str,
    steps: str,
    sent: list[tuple[bytes, bytes | None]],
    bad: tuple[tuple[bytes, str], ...] = (),
    file: str = FILE,
) -> list[tuple[Any, ...]]:
    """The rows of the table once a topic of one partition is read."""
    create_topics(address, topic, f"{topic}-rejects", partitions=1)
    producer = Producer({"bootstrap.servers": address})
    for key, value in (*sent, *((b"0", value) for value, _ in bad)):
        producer.produce(topic, value, key)
    assert producer.flush(READ_TIMEOUT_S) == 0
    folder.mkdir(exist_ok=True)
    text = (file.replace("{steps}", steps)).format(address=address, topic=topic)
    pipeline = parse(text, folder / "my.toml")
    run.wait(pipeline, run.start_stream(run.build(spark, pipeline, folder)))
    with closing(sqlite3.connect(folder / "shop.db")) as database:
        return database.execute("SELECT id, name, credit FROM customers ORDER BY id").fetchall()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('format = "json"', 'format = "csv"', 'envelope needs format = "json"'),
        ("credit DOUBLE", "deleted BOOLEAN", "a column deleted is added"),
        ('latest_by = "offset"\n', "", "delete_by needs latest_by"),
        ('omit = ["offset"]', 'omit = ["id"]', "the key 'id' must be stored"),
        ('tombstones = "drop"', 'unavailable = "keep"', 'keep_by = "unavailable" must be given'),
        ('omit = ["offset"]', 'keep_by = "unavailable"', "rows of a parse step with unavailable"),
        ('tombstones = "drop"', 'unavailable_placeholder = "hex:x"', "no hexadecimal digits"),
    ],
)
def test_mistakes_are_reported(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = FILE.replace("{steps}", DEBEZIUM).format(address="h:1", topic="t")
    assert old in text
    with pytest.raises(SpecError, match=message):
        parse(text.replace(old, new), tmp_path / "my.toml")
