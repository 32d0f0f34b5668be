"""Parsing of records into columns, and the reasons of dead letters."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import StructType

from odradek.pipeline.spec.parse_step import Parse
from odradek.pipeline.spec.row_schema import columns_of
from odradek.pipeline.transforms.parse import parse
from tests.pipeline.feeding import moment, outcome

JSON: list[tuple[bytes | None, Any]] = [
    (b'{"a":"x","b":1.5}', ("x", 1.5)),
    (b' {"b":2, "a":"y"}\n', ("y", 2.0)),
    (b"{}", (None, None)),
    (b'{"a":null,"b":null}', (None, None)),
    (b'{"a":"x","extra":{"deep":[1]}}', ("x", None)),
    (b'{"A":"x"}', (None, None)),
    (b'{"a":"first","a":"second"}', ("second", None)),
    (b'{"a":7}', ("7", None)),
    (b'{"a":"}{"}', ("}{", None)),
    (b'{"a":[{"q":1},{"q":2}]}', ('[{"q":1},{"q":2}]', None)),
    ('{"a":"é€\U0001f600"}'.encode(), ("é€\U0001f600", None)),
    (b'{"b":"1.5"}', "b is not DOUBLE"),
    (b'{"b":true}', "b is not DOUBLE"),
    (b'{"a":"x"} and more', "not one JSON object"),
    (b'{"a":"x"}{"a":"y"}', "not one JSON object"),
    (b'{"a":"x"},{"a":"y"}', "not one JSON object"),
    (b'[{"a":"x"}]', "not one JSON object"),
    (b"null", "not one JSON object"),
    (b"5", "not one JSON object"),
    (b'{"a":"x"', "not JSON"),
    (b"garbage", "not JSON"),
    (b'{"a":"\xff\xfe"}', "not UTF-8"),
    (b"", "no value"),
    (None, "no value"),
]


def test_json_rows_of_wrong_types_are_dead_letters(spark: SparkSession) -> None:
    outcomes = outcome(spark, [v for v, _ in JSON], format="json", schema="a STRING, b DOUBLE")
    assert outcomes == [expected for _, expected in JSON]


NESTED: list[tuple[bytes, Any]] = [
    (
        b'{"n":{"z":1,"o":{"p":true}},"l":[1,null],"m":{"k":2}}',
        (Row(z=1, o=Row(p=True)), [1, None], {"k": 2}),
    ),
    (b'{"n":{}}', (Row(z=None, o=None), None, None)),
    (b'{"n":{"z":"x"}}', "n.z is not INT"),
    (b'{"n":{"z":99999999999}}', "n.z is not INT"),
    (b'{"n":{"o":{"p":"yes"}}}', "n.o.p is not BOOLEAN"),
    (b'{"n":{"o":5}}', "n.o is not an object"),
    (b'{"n":[1]}', "n is not an object"),
    (b'{"l":["x"]}', "l is not ARRAY of INT"),
    (b'{"m":{"k":"v"}}', "m is not MAP to INT"),
]


def test_json_structs_of_wrong_types_are_dead_letters(spark: SparkSession) -> None:
    schema = "n STRUCT<z: INT, o: STRUCT<p: BOOLEAN>>, l ARRAY<INT>, m MAP<STRING, INT>"
    outcomes = outcome(spark, [value for value, _ in NESTED], format="json", schema=schema)
    assert outcomes == [expected for _, expected in NESTED]


def test_invalid_times_and_decimals_in_json_are_dead_letters(spark: SparkSession) -> None:
    values = [
        b'{"at":"2026-01-02T03:04:05.678Z","d":"2026-01-02","p":12.34}',
        b'{"at":"2026-01-02T04:04:05.678+01:00"}',
        b'{"at":"yesterday"}',
        b'{"d":"2026-02-30"}',
        b'{"p":123456.789}',
    ]
    schema = "at TIMESTAMP, d DATE, p DECIMAL(5, 2)"
    whole, shifted, *bad = outcome(spark, values, format="json", schema=schema)
    assert moment(whole[0]) == datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)
    assert (whole[1], str(whole[2])) == (date(2026, 1, 2), "12.34")
    assert moment(shifted[0]) == moment(whole[0])
    assert bad == ["at is not TIMESTAMP", "d is not DATE", "p is not DECIMAL(5,2)"]


NUMBERS = [
    *("12345678901234567.89", "1.10", "1e2", "-1.5E-3", "12345678901234567890", "-0", "0", "7"),
    *("0.0", "1E400", "-2.50e+07", "0.1000000000000000055511151231257827", f"{10**40}.5"),
]
"""Numbers of JSON that a double, or its text, changes; and some that it keeps."""


def test_json_numbers_keep_their_digits_in_a_string_of_any_depth(spark: SparkSession) -> None:
    schema = (
        "a STRING, n STRUCT<s: STRING, d: DOUBLE, o: STRING>, l ARRAY<STRING>, i INT,"
        " m MAP<STRING, STRUCT<s: STRING, x: BIGINT>>, e ARRAY<STRUCT<s: STRING, x: ARRAY<STRING>>>"
    )
    values = [
        f"""{{"a":{n}, "n":{{"s": {n} ,"d":1.50,"o":{{"x":[{n}],"y":"{n}"}}}},"l":[{n},"{n}",null],
        "i":7,"m":{{"{n}":{{"s":{n},"x":8}},"k":{{"x":9}}}},"e":[{{"s":{n},"x":[{n},{n}]}},null]}}"""
        for n in NUMBERS
    ]
    assert outcome(spark, [value.encode() for value in values], format="json", schema=schema) == [
        (
            n,
            Row(s=n, d=1.5, o=f'{{"x":[{n}],"y":"{n}"}}'),
            [n, n, None],
            7,
            {n: Row(s=n, x=8), "k": Row(s=None, x=9)},
            [Row(s=n, x=[n, n]), None],
        )
        for n in NUMBERS
    ]


def test_texts_that_look_like_json_numbers_are_unchanged(spark: SparkSession) -> None:
    texts = [
        "1.10",
        'a "1.10", 1e2, [1.0]',
        "it's 1.50",
        '{"x":1.10}',
        "\\1.0\n2.50",
        "\ufdd01.10",
        "\ufdd0",
        '"' * 3,
        "-" * 3,
        "x1.0" * 10_000,
    ]
    values = [json.dumps({"a": text, text: 1.5, "b": 1.5}).encode() for text in texts]
    values += [json.dumps({"a": text, "b": 1.5}, ensure_ascii=False).encode() for text in texts]
    outcomes = outcome(spark, values, format="json", schema="a STRING, b DOUBLE")
    assert outcomes == [(text, 1.5) for text in texts * 2]
    single = b"""{'a':'it "is" 1.10', 'b':1.5}"""
    assert outcome(spark, [single], format="json", schema="a STRING, b STRING") == [
        ('it "is" 1.10', "1.5")
    ]


def test_rows_of_an_envelope_keep_the_digits_of_their_numbers(spark: SparkSession) -> None:
    schema = "s STRING, d DECIMAL(38, 4), x DOUBLE"
    settings = {"format": "json", "envelope": "debezium", "schema": schema}
    numbers = ["12345678901234567.89", "1.10", "1e2", "12345678901234567890", "-0.5"]
    values: list[bytes] = []
    for number in numbers:
        row = f'{{"s": {number}, "d": {number}, "x": 2.5}}'
        for event in (
            f'{{"op": "u", "before": {{"d": 1}}, "after": {row}}}',
            f'{{"op": "d", "before": {row}, "after": null}}',
        ):
            values += [event.encode(), f'{{"schema": {{}}, "payload": {event}}}'.encode()]
    outcomes = outcome(spark, values, **settings)
    assert [(s, f"{d:.4f}", x, deleted) for s, d, x, deleted in outcomes] == [
        (number, f"{Decimal(number):.4f}", 2.5, is_deletion)
        for number in numbers
        for is_deletion in (False, False, True, True)
    ]


MARK = "__debezium_unavailable_value"
MARKED: list[tuple[str, str]] = [
    ("STRING", f'"{MARK}"'),
    ("STRING", f'"{b64encode(MARK.encode()).decode()}"'),
    ("STRING", f'"{MARK.encode().hex()}"'),
    ("STRING", f'["{MARK}"]'),
    ("STRING", f'{{"{MARK}": "{MARK}"}}'),
    ("BINARY", f'"{b64encode(MARK.encode()).decode()}"'),
    ("ARRAY<STRING>", f'["{MARK}"]'),
    ("ARRAY<BINARY>", f'["{b64encode(MARK.encode()).decode()}"]'),
    ("ARRAY<INT>", str(list(MARK.encode()))),
    ("ARRAY<BIGINT>", str(list(MARK.encode()))),
    ("MAP<STRING, STRING>", f'{{"{MARK}": "{MARK}"}}'),
]


@pytest.mark.parametrize("is_event", [False, True])
def test_placeholders_of_unknown_values_are_dead_letters_or_named(
    spark: SparkSession, is_event: bool
) -> None:
    schema = ", ".join(f"c{n} {kind}" for n, (kind, _) in enumerate(MARKED))
    envelope = {"envelope": "debezium"} if is_event else {}
    settings = {"format": "json", "schema": f"{schema}, s STRUCT<t: STRING>, z INT", **envelope}

    def event(row: str, op: str = "u") -> bytes:
        side = "before" if op == "d" else "after"
        return (f'{{"op":"{op}","{side}":{row}}}' if is_event else row).encode()

    rows = [event(f'{{"c{n}": {value}, "z": 5}}') for n, (_, value) in enumerate(MARKED)]
    nested = event(f'{{"s": {{"t": "{MARK}"}}}}')
    outcomes = outcome(spark, [*rows, nested], **settings)
    assert outcomes == [
        f"{name} is not known: a placeholder"
        for name in (*(f"c{n}" for n in range(len(rows))), "s")
    ]
    outcomes = outcome(spark, [*rows, nested, event("{}")], **settings, unavailable="keep")
    nothing = [None] * (len(MARKED) + 1)
    deleted = [False] if is_event else []
    assert outcomes == [
        *((*nothing, 5, *deleted, [f"c{n}"]) for n in range(len(rows))),
        "s is not known: a placeholder",
        (*nothing, None, *deleted, []),
    ]
    if is_event:
        outcomes = outcome(spark, [event(f'{{"c0": "{MARK}", "z": 5}}', "d")], **settings)
        assert outcomes == [(*nothing, 5, True)], "a deletion needs its key only"


def test_configured_placeholder_is_found_and_the_usual_one_is_a_text(spark: SparkSession) -> None:
    schema = "a STRING NOT NULL, b BINARY, c ARRAY<INT>"
    values = [b'{"a":"__mine"}', f'{{"a":"{MARK}"}}'.encode(), b'{"a":"x","b":"/wA="}']
    values += [b'{"a":"x","c":[-1,0]}']
    text, other, *_ = outcome(
        spark, values, format="json", schema=schema, unavailable_placeholder="__mine"
    )
    assert (text, other[0]) == ("a is not known: a placeholder", MARK)
    settings = {"unavailable_placeholder": "hex:ff00", "unavailable": "keep"}
    outcomes = outcome(spark, values, format="json", schema=schema, **settings)
    assert [row[-1] for row in outcomes] == [[], [], ["b"], ["c"]]


def test_placeholders_in_avro_are_dead_letters(spark: SparkSession) -> None:
    schema = avro(("a", "string"), ("b", "bytes"))
    text = bytes([2 * len(MARK)]) + MARK.encode()
    outcomes = outcome(spark, [text + b"\x00", b"\x02x" + text], format="avro", schema=schema)
    assert outcomes == ["a is not known: a placeholder", "b is not known: a placeholder"]


CSV: list[tuple[bytes | None, Any]] = [
    (b"x,1.5,2", ("x", 1.5, 2)),
    (b"x,1.5,2\r\n", ("x", 1.5, 2)),
    (b"x, 1.5 ,2", ("x", 1.5, 2)),
    (b'"a,b",1,2', ("a,b", 1.0, 2)),
    (b'"say ""a""",1,2', ('say "a"', 1.0, 2)),
    (b'"two\nlines",1,2', ("two\nlines", 1.0, 2)),
    (b"#x,1,2", ("#x", 1.0, 2)),
    (b",,", (None, None, None)),
    (b"x,,2", ("x", None, 2)),
    (b"x,abc,2", "b is not DOUBLE"),
    (b"x,1.5,2.5", "c is not INT"),
    (b"x,1.5", "not 3 columns"),
    (b"x,1.5,2,3", "not 3 columns"),
    (b'"open,1,2', "not 3 columns"),
    (b" ", "not 3 columns"),
    (b"\xff,1,2", "not UTF-8"),
    (b"", "no value"),
    (None, "no value"),
]


def test_csv_rows_of_wrong_types_are_dead_letters(spark: SparkSession) -> None:
    schema = "a STRING, b DOUBLE, c INT"
    outcomes = outcome(spark, [value for value, _ in CSV], format="csv", schema=schema)
    assert outcomes == [expected for _, expected in CSV]
    values = [b"x|1", b'"a|b"|2', b"x,1", b"x|y|1"]
    outcomes = outcome(spark, values, format="csv", schema="a STRING, b INT", delimiter="|")
    assert outcomes == [("x", 1), ("a|b", 2), "not 2 columns", "not 2 columns"]


def test_missing_required_field_is_a_dead_letter(spark: SparkSession) -> None:
    values = [b'{"a":"x","b":1}', b'{"a":null,"b":1}', b'{"a":"x"}', b"{}"]
    expected = ["a is missing", "b is missing", "a is missing"]
    schema = "a STRING, b DOUBLE"
    of_json = outcome(spark, values, format="json", schema=schema, required=["a", "b"])
    other = outcome(spark, values, format="json", schema="a STRING NOT NULL, b DOUBLE NOT NULL")
    assert of_json[1:] == other[1:] == expected
    outcomes = outcome(spark, [b"x,", b",1"], format="csv", schema=schema, required=["b"])
    assert outcomes == ["b is missing", (None, 1.0)]


def avro(*fields: tuple[str, Any]) -> str:
    """The schema of a record."""
    named = [{"name": name, "type": kind} for name, kind in fields]
    return json.dumps({"type": "record", "name": "payment", "fields": named})


MILLIS = {"type": "long", "logicalType": "timestamp-millis"}


def test_avro_records_of_another_schema_are_dead_letters(spark: SparkSession) -> None:
    schema = avro(("a", "string"), ("b", ["null", "double"]), ("at", MILLIS))
    whole = b"\x02x\x02" + b"\x00" * 6 + b"\xf8\x3f" + b"\xd0\x0f"
    values = [whole, b"\x02x\x00\x00", whole + b"z", b"\x00\x00\x00\x00\x07" + whole, whole[:-1]]
    values += [b"", b"\xff" * 12, b"\x02\xff\x00\x00"]
    first, second, *bad = outcome(spark, values, format="avro", schema=schema)
    assert first[:2] == ("x", 1.5)
    assert moment(first[2]) == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert second[:2] == ("x", None)
    assert bad == ["not Avro of this schema"] * 5 + ["a is not UTF-8"]


def test_avro_structs_are_decoded_and_records_of_nulls_are_kept(spark: SparkSession) -> None:
    inner = {"type": "record", "name": "inner", "fields": [{"name": "x", "type": ["null", "int"]}]}
    schema = avro(("a", "string"), ("s", inner), ("l", {"type": "array", "items": "int"}))
    values = [b"\x02x\x02\x0a\x04\x02\x04\x00", b"\x00\x00\x00", b"\x02x\x02", None]
    outcomes = outcome(spark, values, format="avro", schema=schema)
    bad = ["not Avro of this schema", "no value"]
    assert outcomes == [("x", Row(x=5), [1, 2]), ("", Row(x=None), []), *bad]

    schema = avro(("a", ["null", "string"]), ("b", ["double", "null"]))
    values = [b"\x00\x02", b"\x00", b"\x00\x02\x00", b"\x09\x09"]
    outcomes = outcome(spark, values, format="avro", schema=schema)
    assert outcomes == [(None, None)] + ["not Avro of this schema"] * 3
    outcomes = outcome(spark, values[:1], format="avro", schema=schema, required=["a"])
    assert outcomes == ["a is missing"]


HEADERS = "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
OF_KAFKA = f"key BINARY, value BINARY, topic STRING, partition INT, offset LONG, at LONG, {HEADERS}"
KEPT: list[tuple[list[tuple[str, bytes | None]] | None, list[tuple[str, bytes | None]]]] = [
    (None, []),
    ([], []),
    ([("b", b"1"), ("a", None), ("b", b"")], [("b", b"1"), ("a", None), ("b", b"")]),
    ([("reason", b"mine"), ("topic", b"t")], [("reason", b"mine"), ("topic", b"t")]),
    ([("odradek", b"1"), ("Odradek.reason", b"2")], [("odradek", b"1"), ("Odradek.reason", b"2")]),
    ([("odradek.reason", b"of an earlier step"), ("a", b"1")], [("a", b"1")]),
]


def test_dead_letter_has_the_headers_and_the_position_of_its_record(spark: SparkSession) -> None:
    records = [
        (b"k", b"oops", "orders", 3, offset, 1_767_225_600_123, given)
        for offset, (given, _) in enumerate(KEPT)
    ]
    rows = spark.createDataFrame(records, OF_KAFKA)
    letters = dead_letters(rows.selectExpr("*", "timestamp_millis(at) AS timestamp").drop("at"))
    assert [(key, value) for key, value, _ in letters] == [(b"k", b"oops")] * len(KEPT)
    assert [headers for _, _, headers in letters] == [
        [
            *kept,
            ("odradek.reason", b"not JSON"),
            ("odradek.topic", b"orders"),
            ("odradek.partition", b"3"),
            ("odradek.offset", str(offset).encode()),
            ("odradek.timestamp", b"1767225600123"),
        ]
        for offset, (_, kept) in enumerate(KEPT)
    ]


def dead_letters(rows: DataFrame) -> list[tuple[Any, Any, list[tuple[str, bytes | None]]]]:
    """Key, value and headers of the dead letters of a JSON parse step."""
    step = {"kind": "parse", "from": "rows", "format": "json", "schema": "a INT"}
    _, bad = parse(rows, Parse.model_validate(step))
    return [
        (key, value, [(header.key, header.value and bytes(header.value)) for header in headers])
        for key, value, headers in bad.collect()
    ]


def test_columns_of_other_sources_are_not_used_as_headers_or_timestamp(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [("oops", "x", "y")], "value STRING, headers STRING, timestamp STRING"
    )
    assert dead_letters(rows) == [(None, b"oops", [("odradek.reason", b"not JSON")])]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"schema": "a DOUBEL"}, "column a: 'DOUBEL' is not a type"),
        ({"schema": "a INT b INT"}, "'b' found where a comma or the end is expected"),
        ({"schema": "a STRUCT<x: FOO>"}, "column a.x: 'FOO' is not a type"),
        ({"schema": "a ARRAY<INT"}, "nothing found where '>' is expected"),
        ({"schema": "a"}, "column a: a type is missing"),
        ({"schema": "a INT, A STRING"}, "column A exists twice"),
        ({"schema": "a DECIMAL(40)"}, "DECIMAL has 1 to 38 digits"),
        ({"schema": "a DECIMAL(0, 0)"}, "DECIMAL has 1 to 38 digits"),
        ({"schema": "a DECIMAL(5, 10)"}, "10 of 5 digits cannot follow the decimal point"),
        ({"schema": "_corrupt STRING"}, "a column _corrupt is there already"),
        ({"schema": "a INT; DROP"}, "'; DROP' is not understood"),
        ({"schema": "a INT", "required": ["b"]}, "the schema has no 'b'; it has: a"),
        ({"schema": "a INT", "keep": ["a"]}, "the schema has a column 'a' too"),
        ({"format": "avro", "schema": "a INT"}, "an Avro schema is JSON"),
        ({"format": "avro", "schema": '"string"'}, "an Avro schema is a record"),
        ({"format": "avro", "schema": '{"type": "record", "name": "r"}'}, "has no fields"),
    ],
)
def test_invalid_schema_is_an_error_before_spark_starts(
    settings: dict[str, Any], message: str
) -> None:
    whole = {"kind": "parse", "from": "rows", "format": "json", **settings}
    with pytest.raises(ValueError, match=r"1 validation error") as caught:
        Parse.model_validate(whole)
    assert message in str(caught.value)


def test_schema_parser_accepts_what_spark_accepts(spark: SparkSession) -> None:
    columns = [
        "a TINYINT",
        "b decimal(10,2) NOT NULL COMMENT 'x, y'",
        "`c d` ARRAY<STRUCT<x: INT, y: MAP<STRING, DATE>>>",
        "e VARCHAR(3)",
        "f timestamp_ntz",
        "g: BOOLEAN",
        "h INTERVAL DAY TO SECOND",
    ]
    schema = ", ".join(columns)
    read = StructType.fromDDL(schema)
    assert isinstance(read, StructType)
    assert columns_of(schema) == read.names == ["a", "b", "c d", "e", "f", "g", "h"]
