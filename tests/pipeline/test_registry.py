"""Records of a schema registry, read and written beside Confluent's own serializers."""

from __future__ import annotations

import importlib
import io
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import fastavro
import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType

from odradek.pipeline.cases.report import assert_cases
from odradek.pipeline.jobs import run
from odradek.pipeline.registry.avro_schema import avro_schema_of, avro_text
from odradek.pipeline.registry.client import RegistryClient
from odradek.pipeline.report.failures import PartFailed
from odradek.pipeline.spec.document import Outside, read_document
from odradek.pipeline.spec.ends import Registry
from odradek.pipeline.spec.load import load, parse
from odradek.pipeline.spec.problems import SpecError
from tests.pipeline.topics import avro
from tests.support.broker_process import BrokerProcess
from tests.support.schema_registry import SchemaRegistry, schema_registry
from tests.support.tool_cache import PROJECT

AT_MS: Final = 1_767_225_600_123
FIRST: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "shop", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
SECOND: Final[dict[str, Any]] = {
    **FIRST,
    "fields": [*FIRST["fields"], {"name": "note", "type": ["null", "string"], "default": None}],
}


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SchemaRegistry]:
    with schema_registry(tmp_path_factory.mktemp("registry")) as process:
        yield process


@pytest.fixture(scope="module")
def client(registry: SchemaRegistry) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry.url})


def head(broker: BrokerProcess, registry: SchemaRegistry, topic: str) -> str:
    return f"""
[pipeline]
name = "formats"
mode = "batch"
[clusters.main]
bootstrap_servers = "{broker.address}"
[registries.main]
url = "{registry.url}"
[sources.records]
kind = "kafka"
cluster = "main"
subscribe = ["{topic}"]
"""


def send(broker: BrokerProcess, topic: str, values: Sequence[bytes | None]) -> None:
    """To partition 0, in their order."""
    producer = Producer({"bootstrap.servers": broker.address})
    for value in values:
        producer.produce(topic, value, key=b"k", partition=0)
    assert producer.flush(30) == 0


def rows_and_reasons(
    spark: SparkSession, folder: Path, text: str
) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of the step `parsed`, by id, and the reasons of its dead letters in their order."""
    built = run.build(spark, parse(text, folder / "my.toml"), folder)
    rows = [row.asDict(recursive=True) for row in built.views["parsed"].collect()]
    dead = built.outputs["parsed_rejects"][0].collect()
    reasons = []
    for row in dead:
        headers = {header["key"]: header["value"] for header in row.headers}
        reasons.append((int(headers["odradek.offset"]), headers["odradek.reason"].decode()))
    return sorted(rows, key=lambda row: row["id"]), [reason for _, reason in sorted(reasons)]


AVRO_STEP: Final = """
[steps.parsed]
kind = "parse"
from = "records"
format = "avro"
registry = "main"
rejects = "avro-read-rejects"
rejects_cluster = "main"
[sinks.out]
kind = "console"
from = "parsed"
"""


def test_avro_of_several_schemas_is_read_by_one(
    spark: SparkSession,
    broker: BrokerProcess,
    registry: SchemaRegistry,
    client: SchemaRegistryClient,
    tmp_path: Path,
) -> None:
    topic = "avro-read"
    first = avro(client, topic, FIRST, {"id": 1, "shop": "a", "at": AT_MS})
    second = avro(client, topic, SECOND, {"id": 2, "shop": "b", "at": AT_MS, "note": "n"})
    other = json.dumps(
        {"type": "record", "name": "Other", "fields": [{"name": "x", "type": "int"}]}
    )
    other_id = client.register_schema("another-subject", Schema(other, "AVRO"))
    values = [
        first,
        second,
        None,
        b'{"id": 3}',
        b"\x00\x00",
        b"\x00\x7f\xff\xff\xff\x02",
        first[:-1],
        second + b"\x00",
        bytes([0]) + other_id.to_bytes(4, "big") + b"\x02",
    ]
    send(broker, topic, values)
    text = head(broker, registry, topic) + AVRO_STEP
    rows, reasons = rows_and_reasons(spark, tmp_path, text)
    assert [(row["id"], row["shop"], row["note"]) for row in rows] == [
        (1, "a", None),
        (2, "b", "n"),
    ]
    assert {round(row["at"].timestamp() * 1000) for row in rows} == {AT_MS}
    assert reasons[:4] == [
        "no value",
        "no frame of a schema registry",
        "no frame of a schema registry",
        f"schema id {0x7FFFFFFF} is not in the registry",
    ]
    assert reasons[4].startswith("not a record of schema id")
    assert reasons[5] in ("not Avro of this schema", "something follows the record of schema id 2")
    assert reasons[6].startswith(f"not a record of schema id {other_id}")
    assert len(reasons) == 7
    # By an older schema the new field is left out.
    older = text.replace(
        'registry = "main"', f"registry = \"main\"\nschema = '{json.dumps(FIRST)}'"
    )
    rows, _ = rows_and_reasons(spark, tmp_path, older)
    assert [sorted(row) for row in rows] == [["at", "id", "shop"]] * 2


PROTO: Final = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "money.proto";
message Unrelated { int32 x = 1; }
message Order {
  message Line { string article = 1; uint32 count = 2; }
  enum State { NEW = 0; PAID = 1; }
  int64 id = 1;
  string shop = 2;
  optional string note = 3;
  State state = 4;
  repeated Line lines = 5;
  map<string, double> weights = 6;
  google.protobuf.Timestamp at = 7;
  bytes seal = 8;
  Money price = 9;
}
"""
MONEY: Final = """
syntax = "proto3";
package shop;
message Money { int64 cents = 1; string currency = 2; }
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of two messages, their descriptor set, and their Python modules."""
    folder = tmp_path_factory.mktemp("proto")
    (folder / "odradek_order.proto").write_text(PROTO)
    (folder / "money.proto").write_text(MONEY)
    compile_proto(folder, "odradek_order.proto", "money.proto")
    return folder


def compile_proto(folder: Path, *names: str) -> None:
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", f"--python_out={folder}"]
    out = f"--descriptor_set_out={folder / 'shop.desc'}"
    subprocess.run([*command, out, "--include_imports", *names], check=True, cwd=folder)


@pytest.fixture(scope="module")
def messages(compiled: Path) -> Iterator[Any]:
    """The compiled module."""
    sys.path.insert(0, str(compiled))
    yield importlib.import_module("odradek_order_pb2")
    sys.path.remove(str(compiled))


def order(messages: Any, number: int) -> Any:
    message = messages.Order(id=number, shop="a", state=1, seal=b"\x01\xff", weights={"x": 0.5})
    message.lines.add(article="tea", count=3)
    message.at.FromMilliseconds(AT_MS)
    message.price.cents = 250
    return message


def framed(client: SchemaRegistryClient, topic: str, kind: Any, message: Any) -> bytes:
    serializer = ProtobufSerializer(kind, client, {"use.deprecated.format": False})
    written: bytes = serializer(message, SerializationContext(topic, MessageField.VALUE))
    return written


PROTOBUF_STEP: Final = """
[steps.parsed]
kind = "parse"
from = "records"
format = "protobuf"
descriptor = "{folder}/shop.desc"
message = "shop.Order"
{registry}
rejects = "protobuf-rejects"
rejects_cluster = "main"
"""


def test_protobuf_is_read_with_and_without_a_registry(
    spark: SparkSession,
    broker: BrokerProcess,
    registry: SchemaRegistry,
    client: SchemaRegistryClient,
    messages: Any,
    compiled: Path,
    tmp_path: Path,
) -> None:
    written = order(messages, 1)
    inner = framed(client, "protobuf-inner", messages.Order.Line, messages.Order.Line(article="x"))
    send(
        broker,
        "protobuf-read",
        [framed(client, "protobuf-read", messages.Order, written), inner, b"\x01\x02", None],
    )
    late = order(messages, 2)
    late.at.seconds = 10**12
    send(broker, "protobuf-plain", [written.SerializeToString(), b"\xff", late.SerializeToString()])
    sink = '[sinks.out]\nkind = "console"\nfrom = "parsed"\n'
    reasons_of_runs = []
    for topic, named in (("protobuf-read", 'registry = "main"'), ("protobuf-plain", "")):
        step = PROTOBUF_STEP.format(folder=compiled, registry=named)
        text = head(broker, registry, topic) + step + sink
        (row,), reasons = rows_and_reasons(spark, tmp_path, text)
        reasons_of_runs.append(reasons)
        assert round(row.pop("at").timestamp() * 1000) == AT_MS
        assert row == {
            "id": 1,
            "shop": "a",
            "note": None,
            "state": "PAID",
            "lines": [{"article": "tea", "count": 3}],
            "weights": {"x": 0.5},
            "seal": b"\x01\xff",
            "price": {"cents": 250, "currency": ""},
        }
    assert reasons_of_runs[0] == [
        "another message of its file, [1, 0], than shop.Order",
        "no frame of a schema registry",
        "no value",
    ]
    garbage, of_late = reasons_of_runs[1]
    assert garbage.startswith("not a message shop.Order")
    assert of_late.startswith("not a message shop.Order: Timestamp is not valid")


def run_all(spark: SparkSession, folder: Path, text: str) -> None:
    pipeline = parse(text, folder / "my.toml")
    run.run_batch(run.build(spark, pipeline, folder))


def values_of(spark: SparkSession, broker: BrokerProcess, topic: str) -> list[bytes]:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.address)
    rows = reader.option("subscribe", topic).load().orderBy("partition", "offset").collect()
    return [bytes(row.value) for row in rows]


ORDERS: Final = """
[steps.orders]
kind = "sql"
query = '''
  SELECT 7L AS id, 'a' AS shop, CAST(NULL AS STRING) AS note,
         TIMESTAMP '2026-01-01T00:00:00Z' AS at, 'PAID' AS state,
         array(named_struct('article', 'tea', 'count', 3)) AS lines
  FROM records LIMIT 1
'''
"""


def sink(topic: str, more: str) -> str:
    return (
        f'[sinks.out]\nkind = "kafka"\nfrom = "orders"\ncluster = "main"\ntopic = "{topic}"\n'
        f'registry = "main"\n{more}\n'
    )


def test_what_sinks_write_is_read_by_confluents_deserializers(
    spark: SparkSession,
    broker: BrokerProcess,
    registry: SchemaRegistry,
    client: SchemaRegistryClient,
    messages: Any,
    compiled: Path,
    tmp_path: Path,
) -> None:
    send(broker, "one-record", [b"x"])
    begin = head(broker, registry, "one-record") + ORDERS
    run_all(spark, tmp_path, begin + sink("avro-out", 'format = "avro"'))
    (value,) = values_of(spark, broker, "avro-out")
    row: Any = AvroDeserializer(client)(value, None)
    assert row["at"].timestamp() == 1_767_225_600
    assert (row["id"], row["note"]) == (7, None)
    assert row["lines"] == [{"article": "tea", "count": 3}]

    proto = f'format = "protobuf"\ndescriptor = "{compiled}/shop.desc"\nmessage = "shop.Order"'
    run_all(spark, tmp_path, begin + sink("protobuf-out", proto))
    (value,) = values_of(spark, broker, "protobuf-out")
    reader = ProtobufDeserializer(messages.Order, {"use.deprecated.format": False}, client)
    message: Any = reader(value, SerializationContext("protobuf-out", MessageField.VALUE))
    assert (message.id, message.state, message.lines[0].count) == (7, 1, 3)
    assert not message.HasField("note")

    schema = {"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}}
    text = json.dumps(schema)
    columns = f'format = "json_schema"\nvalue = ["id", "shop"]\nschema = \'{text}\''
    run_all(spark, tmp_path, begin + sink("json-out", columns))
    (value,) = values_of(spark, broker, "json-out")
    read: Any = JSONDeserializer(text)(value, SerializationContext("json-out", MessageField.VALUE))
    assert read == {"id": 7, "shop": "a"}
    # And read again here: the id is cut off.
    step = (
        '[steps.parsed]\nkind = "parse"\nfrom = "records"\nformat = "json"\nregistry = "main"\n'
        'schema = "id BIGINT NOT NULL, shop STRING"\nrejects = "r"\nrejects_cluster = "main"\n'
        '[sinks.out]\nkind = "console"\nfrom = "parsed"\n'
    )
    send(broker, "json-out", [b'{"id": 8}'])
    rows, reasons = rows_and_reasons(spark, tmp_path, head(broker, registry, "json-out") + step)
    assert rows == [{"id": 7, "shop": "a"}]
    assert reasons == ["no frame of a schema registry"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("SCHEMA", "schema registry http.*(I|i)ncompatib"),
        ("REGISTERED", "subject refused-out-value: "),
        ("SHORT", "the schema has a field weight, the rows have: id, shop, note"),
        ("LONG", "column note is not in the schema; leave it out"),
        ("UNKNOWN", "'shop.Ordr' is not a message there; there are: .*shop.Order"),
        ("NO FIELD", "column lines is not in the schema; .*id, cents|has: cents, currency"),
    ],
)
def test_schema_that_does_not_fit_ends_the_start(
    spark: SparkSession,
    broker: BrokerProcess,
    registry: SchemaRegistry,
    client: SchemaRegistryClient,
    compiled: Path,
    tmp_path: Path,
    more: str,
    message: str,
) -> None:
    topic = "refused-out"
    text = json.dumps({**FIRST, "fields": [{"name": "id", "type": "string"}]})
    if more == "SCHEMA":
        client.register_schema(f"{topic}-value", Schema(text, "AVRO"))
        client.set_compatibility(f"{topic}-value", "BACKWARD")
    weighed = json.dumps({**FIRST, "fields": [*FIRST["fields"], {"name": "weight", "type": "int"}]})
    proto = f'format = "protobuf"\ndescriptor = "{compiled}/shop.desc"\nmessage = '
    chosen = {
        "SCHEMA": 'format = "avro"',
        "REGISTERED": 'format = "avro"\nregister_schema = false\nschema = \'{"type": "record", '
        '"name": "Z", "fields": [{"name": "id", "type": "long"}]}\'\nvalue = ["id"]',
        "SHORT": f"format = \"avro\"\nschema = '{weighed}'",
        "LONG": f'format = "avro"\nvalue = ["id", "note"]\nschema = \'{text}\'',
        "UNKNOWN": f'{proto}"shop.Ordr"',
        "NO FIELD": f'{proto}"shop.Money"\nvalue = ["lines"]',
    }[more]
    send(broker, "one-record", [b"x"])
    text = head(broker, registry, "one-record") + ORDERS + sink(topic, chosen)
    with pytest.raises(PartFailed, match=message) as failed:
        run_all(spark, tmp_path, text)
    assert "\n" not in str(failed.value)


def test_registry_that_is_away_is_named_in_one_line(
    spark: SparkSession,
    broker: BrokerProcess,
    registry: SchemaRegistry,
    client: SchemaRegistryClient,
    tmp_path: Path,
) -> None:
    topic = "away"
    send(broker, topic, [avro(client, topic, FIRST, {"id": 1, "shop": "a", "at": 0})])
    text = head(broker, registry, topic).replace(
        f'url = "{registry.url}"',
        'url = "http://127.0.0.1:9"\noptions = { "max.retries" = 1, "retries.wait.ms" = 10 }',
    )
    step = (
        '[steps.parsed]\nkind = "parse"\nfrom = "records"\nformat = "avro"\nSCHEMA\n'
        'registry = "main"\n[sinks.out]\nkind = "files"\nfrom = "parsed"\npath = "out"\n'
        'format = "json"\n'
    )
    for schema in ("", f"schema = '{json.dumps(FIRST)}'"):
        with pytest.raises(PartFailed, match=r"schema registry http://127\.0\.0\.1:9: ") as failed:
            run_all(spark, tmp_path, text + step.replace("SCHEMA", schema))
        assert "\n" not in str(failed.value)


EXAMPLE: Final = PROJECT / "config/pipelines/registry.toml"
CASES: Final = """
[[case]]
name = "a window has the orders of a shop"
given.orders = [
  { value = { id = 1, shop = "a", amount = 2.5, at = 2026-01-01T00:00:05Z } },
  { value = { id = 2, shop = "a", amount = 1.5, at = 2026-01-01T00:00:09Z, coupon = "x" } },
  { value = { id = 3, shop = "b" } },
]
columns = ["shop", "total", "orders"]
expected.takings = [{ shop = "a", total = 4.0, orders = 2 }]
"""


def test_example_is_tested_in_json_without_a_registry(spark: SparkSession, tmp_path: Path) -> None:
    cases = tmp_path / "registry.test.toml"
    cases.write_text(CASES)
    assert_cases(EXAMPLE, cases, spark=spark)


def test_example_goes_on_when_producers_have_a_new_schema(
    spark: SparkSession,
    broker: BrokerProcess,
    registry: SchemaRegistry,
    client: SchemaRegistryClient,
    tmp_path: Path,
) -> None:
    amount = {"name": "amount", "type": "double"}
    newer = {"name": "channel", "type": "string", "default": "web"}
    outside = Outside({"KAFKA": broker.address, "REGISTRY": registry.url})
    pipeline = load(EXAMPLE, "available_now", outside)
    for number, more in enumerate(([], [newer])):
        schema = {**FIRST, "fields": [*FIRST["fields"], amount, *more]}
        value = {"id": number, "shop": "a", "amount": 2.5, "at": AT_MS + number * 3_600_000}
        send(broker, "orders", [avro(client, "orders", schema, {**value, "channel": "app"})])
        built = run.build(spark, pipeline, tmp_path)
        run.wait(pipeline, run.start_stream(built))
    written = [
        AvroDeserializer(client)(value, None) for value in values_of(spark, broker, "takings")
    ]
    assert [(row["shop"], row["total"], row["orders"]) for row in written] == [("a", 2.5, 1)]
    assert client.get_versions("takings-value") == [1]


def test_record_of_a_union_of_like_records_stays_the_same_one(
    spark: SparkSession,
    broker: BrokerProcess,
    registry: SchemaRegistry,
    client: SchemaRegistryClient,
    tmp_path: Path,
) -> None:
    sides: list[Any] = [
        {"type": "record", "name": name, "fields": [{"name": "x", "type": "int"}]}
        for name in ("Buy", "Sell")
    ]
    fields: list[Any] = [{"name": "id", "type": "long"}, {"name": "side", "type": sides}]
    written = {"type": "record", "name": "Trade", "fields": fields}
    newer = {"name": "note", "type": ["null", "string"], "default": None}
    reader = {**written, "fields": [*fields, newer]}
    value = avro(client, "trades", written, {"id": 1, "side": ("Sell", {"x": 5})})
    client.register_schema("trades-value", Schema(json.dumps(reader), "AVRO"))
    send(broker, "trades", [value])
    text = head(broker, registry, "trades") + AVRO_STEP
    ((row,), reasons) = rows_and_reasons(spark, tmp_path, text)
    assert not reasons
    assert row == {"id": 1, "side": {"member0": None, "member1": {"x": 5}}, "note": None}


def test_avro_schema_that_refers_to_another_is_read(
    spark: SparkSession,
    broker: BrokerProcess,
    registry: SchemaRegistry,
    client: SchemaRegistryClient,
    tmp_path: Path,
) -> None:
    money = {"type": "record", "name": "shop.Money", "fields": [{"name": "cents", "type": "long"}]}
    fields = [{"name": "id", "type": "long"}, {"name": "price", "type": "shop.Money"}]
    priced = {"type": "record", "name": "shop.Priced", "fields": fields}
    client.register_schema("money", Schema(json.dumps(money), "AVRO"))
    reference = SchemaReference("shop.Money", "money", 1)
    written = Schema(json.dumps(priced), "AVRO", [reference])
    schema_id = client.register_schema("avro-referring-value", written)
    # The numbers 1 and 250 as zigzag varints.
    send(broker, "avro-referring", [b"\x00" + schema_id.to_bytes(4, "big") + b"\x02\xf4\x03"])
    text = head(broker, registry, "avro-referring") + AVRO_STEP
    rows, reasons = rows_and_reasons(spark, tmp_path, text)
    assert (rows, reasons) == ([{"id": 1, "price": {"cents": 250}}], [])
    whole = {**priced, "fields": [fields[0], {"name": "price", "type": money}]}
    text = head(broker, registry, "avro-referring") + AVRO_STEP
    text = text.replace('registry = "main"', f"registry = \"main\"\nschema = '{json.dumps(whole)}'")
    rows, reasons = rows_and_reasons(spark, tmp_path, text)
    assert (rows, reasons) == ([{"id": 1, "price": {"cents": 250}}], [])


def test_mistakes_of_a_registry_are_reported_without_its_account(tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    text = (
        '[pipeline]\nname = "x"\nmode = "batch"\n[clusters.main]\nbootstrap_servers = "a:1"\n'
        '[registries.main]\nurl = "http://r:8081"\noptions = OPTIONS\n[sources.o]\nkind = "kafka"\n'
        'cluster = "main"\nsubscribe = ["a", "b"]\n[steps.p]\nkind = "parse"\nfrom = "o"\n'
        'format = "avro"\nregistry = "REGISTRY"\n[sinks.c]\nkind = "console"\nfrom = "p"\n'
    )
    account = '"basic.auth.user.info" = "joe:hunter22"'

    def refusal(options: str, registry: str) -> str:
        file.write_text(text.replace("OPTIONS", f"{{ {options} }}").replace("REGISTRY", registry))
        with pytest.raises(SpecError) as failed:
            load(file)
        return str(failed.value)

    wrong = refusal(f'{account}, "max.retris" = 1', "main")
    assert "line 8: registries.main.options: Unrecognized properties: max.retris" in wrong
    assert "steps.p: subject must be given: there is not one topic above" in wrong
    assert "hunter22" not in wrong
    assert "a value has another type" in refusal('"basic.auth.user.info" = 7', "main")
    assert "steps.p.registry: 'other' is not a registry; there are: main" in refusal("", "other")
    hidden = read_document(file.read_text().replace("{  }", f"{{ {account} }}"), file, Outside())
    assert hidden.hidden.text("joe:hunter22 is refused") == "(basic.auth.user.info) is refused"


def test_schemas_that_refer_to_the_same_one_make_one_schema(
    registry: SchemaRegistry, client: SchemaRegistryClient
) -> None:
    def record(name: str, **types: Any) -> dict[str, Any]:
        fields = [{"name": key, "type": kind} for key, kind in types.items()]
        return {"type": "record", "name": name, "namespace": "refs", "fields": fields}

    def register(name: str, schema: Any, *references: str) -> int:
        named = [SchemaReference(f"refs.{reference}", reference, 1) for reference in references]
        return client.register_schema(name, Schema(json.dumps(schema), "AVRO", named))

    register("Base", record("Base", kind={"type": "enum", "name": "Kind", "symbols": ["A", "B"]}))
    register("Left", record("Left", base="Base", many={"type": "array", "items": "Base"}), "Base")
    register("Right", record("Right", base=["null", "Base"], self=["null", "Right"]), "Base")
    both = record("Both", left="Left", rights={"type": "map", "values": "Right"}, kind="Kind")
    schema_id = register("Both", both, "Left", "Right", "Base")
    own = RegistryClient(Registry(url=registry.url))
    text = avro_text(own, own.by_id(schema_id))
    schema = fastavro.parse_schema(json.loads(text))
    base = {"kind": "B"}
    value = {
        "left": {"base": base, "many": [base]},
        "rights": {"r": {"base": base, "self": {"base": None, "self": None}}},
        "kind": "A",
    }
    file = io.BytesIO()
    fastavro.schemaless_writer(file, schema, value)
    file.seek(0)
    assert fastavro.schemaless_reader(file, schema, None) == value
    assert text.count('"symbols"') == 1


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ('format = "avro"\nsubject = "no-avro"', "subject no-avro: the schema is JSON, not AVRO"),
        ('format = "avro"\nsubject = "absent"', "subject absent: "),
    ],
)
def test_subject_that_has_no_avro_schema_is_named(
    spark: SparkSession,
    broker: BrokerProcess,
    registry: SchemaRegistry,
    client: SchemaRegistryClient,
    tmp_path: Path,
    step: str,
    message: str,
) -> None:
    schema = {"title": "X", "type": "object", "properties": {"id": {"type": "integer"}}}
    client.register_schema("no-avro", Schema(json.dumps(schema), "JSON"))
    send(broker, "no-avro", [b"x"])
    text = head(broker, registry, "no-avro") + AVRO_STEP.replace('format = "avro"', step)
    with pytest.raises(PartFailed, match=message):
        run.build(spark, parse(text, tmp_path / "my.toml"), tmp_path)


def test_server_that_is_no_registry_does_not_make_dead_letters(
    spark: SparkSession,
    broker: BrokerProcess,
    registry: SchemaRegistry,
    client: SchemaRegistryClient,
    tmp_path: Path,
) -> None:
    value = avro(client, "elsewhere", FIRST, {"id": 1, "shop": "a", "at": 0})
    send(broker, "elsewhere", [value])
    text = head(broker, registry, "elsewhere") + AVRO_STEP
    text = text.replace(f'"{registry.url}"', f'"{registry.url}/nothing"')
    text = text.replace('registry = "main"', f"registry = \"main\"\nschema = '{json.dumps(FIRST)}'")
    built = run.build(spark, parse(text, tmp_path / "my.toml"), tmp_path)
    with pytest.raises(PythonException, match="schema registry http"):
        built.outputs["parsed_rejects"][0].collect()


def test_protobuf_sink_takes_columns_in_other_letters_and_keeps_microseconds(
    spark: SparkSession,
    broker: BrokerProcess,
    registry: SchemaRegistry,
    messages: Any,
    compiled: Path,
    tmp_path: Path,
) -> None:
    send(broker, "one-record", [b"x"])
    columns = "SELECT 7L AS ID, TIMESTAMP '2026-01-01T00:00:00.123456Z' AS At FROM records LIMIT 1"
    orders = f'[steps.orders]\nkind = "sql"\nquery = "{columns}"\n'
    proto = f'format = "protobuf"\ndescriptor = "{compiled}/shop.desc"\nmessage = "shop.Order"'
    text = head(broker, registry, "one-record") + orders + sink("letters-out", proto)
    run_all(spark, tmp_path, text.replace('registry = "main"\n', ""))
    (value,) = values_of(spark, broker, "letters-out")
    message = messages.Order.FromString(value)
    assert (message.id, message.at.ToMicroseconds()) == (7, 1_767_225_600_123_456)


def test_names_of_avro_records_are_legal_and_distinct() -> None:
    inner = StructType([StructField("x", IntegerType())])
    columns = StructType(
        [
            StructField("a_b", StructType([StructField("c", inner)])),
            StructField("a", StructType([StructField("b_c", inner)])),
        ]
    )
    schema: Any = fastavro.parse_schema(json.loads(avro_schema_of(columns, "1-orders-value")))
    assert schema["name"] == "_1_orders_value"
