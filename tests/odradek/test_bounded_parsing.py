"""Every reader of text that others wrote has one error for what it cannot read."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema
from hypothesis import given
from hypothesis import strategies as st

from odradek.bounded_parsing import (
    DEPTH_MAX,
    UnreadableText,
    first_json_value,
    parse_integer,
    parse_json,
    parse_toml,
)
from odradek.controller.coordination.errors import CoordinationError
from odradek.controller.znodes import admin_znodes, config_znodes, zk_data
from odradek.controller.znodes.broker_znode import decode_broker
from odradek.pipeline.registry.avro_schema import avro_text
from odradek.pipeline.spec.cases import batches_of
from odradek.pipeline.spec.document import Outside, read_document, text_of
from odradek.pipeline.spec.problems import SpecError
from odradek.pipeline.spec.row_schema import BadSchema, avro_columns_of
from odradek.pipeline.transforms.columns import StepInputError
from odradek.runtime.system_files import SystemFileSystem
from odradek.storage.checkpoints.checkpoint_file import CorruptCheckpoint, decode_offsets
from odradek.storage.checkpoints.meta_properties import MetaPropertiesError, read_meta_properties
from odradek.testing.node.control.calls import read_arguments
from odradek.testing.node.control.routes import Arguments, ControlError
from odradek.tools.errors import ToolError
from odradek.tools.json_files import read_json
from odradek.tools.snapshot import SnapshotError, describe
from tests.support.unreadable_texts import BYTES, JSON_VALUES, json_documents, variants

VALID = {
    "controller": zk_data.ControllerZnode(1, 2).encode(),
    "topic": zk_data.TopicAssignmentZnode(zk_data.decode_topic_id("A" * 22), {0: (1,)}, {}, {}),
    "state": zk_data.PartitionStateZnode(1, 1, 0, (1, 2)).encode(),
    "cluster id": zk_data.encode_cluster_id("abc"),
    "producer ids": zk_data.ProducerIdBlockZnode(1, 0, 999).encode(),
    "feature": zk_data.encode_feature({"f": 1}, 1),
    "config": config_znodes.encode_config({"retention.ms": "5"}),
    "config change": config_znodes.encode_config_change("topics/a"),
    "directory event": config_znodes.encode_log_directory_event(1),
    "broker": (
        b'{"listener_security_protocol_map":{"P":"PLAINTEXT"},"endpoints":["P://h:1"],'
        b'"features":{"f":{"min_version":1,"max_version":2}},"host":"h","port":1,"version":5,'
        b'"timestamp":"1","rack":"r"}'
    ),
    "old broker": b'{"host":"h","port":1,"version":1}',
    "reassignments": b'{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[1]}]}',
}
DECODERS: dict[str, Callable[[bytes], object]] = {
    "controller": zk_data.ControllerZnode.decode,
    "topic": zk_data.TopicAssignmentZnode.decode,
    "state": zk_data.PartitionStateZnode.decode,
    "cluster id": zk_data.decode_cluster_id,
    "producer ids": zk_data.ProducerIdBlockZnode.decode,
    "feature": zk_data.decode_feature,
    "config": config_znodes.decode_config,
    "config change": config_znodes.decode_config_change,
    "directory event": config_znodes.decode_log_directory_event,
    "broker": lambda data: decode_broker(1, 2, data),
    "old broker": lambda data: decode_broker(1, 2, data),
    "reassignments": admin_znodes.decode_reassignments,
    "partitions": admin_znodes.decode_partitions,
    "controller epoch": zk_data.decode_number,
}


def encoded(name: str) -> bytes:
    valid: Any = VALID[name]
    return valid if isinstance(valid, bytes) else bytes(valid.encode())


def _without_folder(read: Callable[[bytes], object]) -> Callable[[bytes, Path], object]:
    return lambda text, _: read(text)


def _written(read: Callable[[Path], object], name: str) -> Callable[[bytes, Path], object]:
    def write_and_read(text: bytes, folder: Path) -> object:
        path = folder / name
        path.write_bytes(text)
        return read(path)

    return write_and_read


def _snapshot(text: bytes, folder: Path) -> object:
    path = folder / "snapshot"
    with tarfile.open(path, "w") as archive:
        head = tarfile.TarInfo("snapshot.json")
        head.size = len(text)
        archive.addfile(head, io.BytesIO(text))
    return describe(str(path))


def _included(path: Path) -> object:
    return read_document(f'include = ["{path.name}"]\n', path.with_name("main.toml"), Outside())


class NoRegistry:
    """A registry that is not asked."""


def _registered(text: bytes, _: Path) -> object:
    schema = Schema(text.decode("latin-1"), "AVRO")
    return avro_text(NoRegistry(), schema)  # type: ignore[arg-type]


Reader = Callable[[bytes, Path], object]

READERS: dict[str, tuple[Reader, tuple[type[Exception], ...]]] = {
    **{
        f"znode {name}": (_without_folder(read), (CoordinationError,))
        for name, read in DECODERS.items()
    },
    "JSON file of a tool": (_written(lambda path: read_json(str(path)), "json"), (ToolError,)),
    "snapshot": (_snapshot, (SnapshotError,)),
    "body of a control request": (lambda text, _: read_arguments("/topics", text), (ControlError,)),
    "integer of a control request": (
        lambda text, _: Arguments({"n": text.decode("latin-1")}).integer("n"),
        (ControlError,),
    ),
    "pipeline file": (
        _written(lambda path: read_document(text_of(path), path, Outside()), "p.toml"),
        (SpecError,),
    ),
    "included file": (_written(_included, "included.toml"), (SpecError,)),
    "value of --set": (
        lambda text, folder: read_document(
            "", folder / "p.toml", Outside({}, [f"a.b={text.decode('latin-1')}"])
        ),
        (SpecError,),
    ),
    "rows of a test": (
        _written(lambda path: batches_of(path.name, path.parent), "rows.jsonl"),
        (ValueError, SpecError),
    ),
    "Avro schema of a file": (
        lambda text, _: avro_columns_of(text.decode("latin-1")),
        (BadSchema,),
    ),
    "schema of a registry": (_registered, (StepInputError,)),
    "meta.properties": (
        _written(
            lambda path: read_meta_properties(SystemFileSystem(), str(path.parent)),
            "meta.properties",
        ),
        (MetaPropertiesError,),
    ),
    "checkpoint": (lambda text, _: decode_offsets(text), (CorruptCheckpoint,)),
}


def outcome(read: Callable[[], object], errors: tuple[type[Exception], ...]) -> str:
    """`read`, the text of an error that the reader promises, or the name of another one."""
    try:
        repr(read()).encode()
    except errors as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - what the test looks for
        return f"UNEXPECTED {type(error).__name__}: {str(error)[:200]}"
    return "read"


@pytest.mark.parametrize("name", READERS)
def test_reader_raises_its_own_error_only(name: str, tmp_path: Path) -> None:
    read, errors = READERS[name]
    for what, text in json_documents().items():
        for document in (text, b"a = " + text, b"broker.id=" + text, b"0\n1\na 0 " + text + b"\n"):
            result = outcome(partial(read, document, tmp_path), errors)
            assert not result.startswith("UNEXPECTED"), (what, result)
            assert len(result) < 2_000, what


@pytest.mark.parametrize("name", VALID)
def test_znode_with_an_odd_value_is_decoded_or_refused(name: str) -> None:
    decode = DECODERS[name]
    for what, document in variants(encoded(name)).items():
        result = outcome(partial(decode, document), (CoordinationError,))
        assert not result.startswith("UNEXPECTED"), (what, result)
        assert len(result) < 2_000, what
        assert result != "read" or not any(what.startswith(value) for value in JSON_VALUES), what


@pytest.mark.parametrize("value", JSON_VALUES)
def test_json_that_fails_later_is_refused(value: str) -> None:
    for text in (JSON_VALUES[value], f'{{"a":[{JSON_VALUES[value]}]}}'):
        with pytest.raises(UnreadableText):
            parse_json(text)
        with pytest.raises(UnreadableText):
            parse_json(text.encode("utf-8", "surrogatepass"))
        with pytest.raises(UnreadableText):
            first_json_value(text)


@pytest.mark.parametrize("text", BYTES.values(), ids=list(BYTES))
def test_integer_is_decimal_ascii_within_its_bounds(text: bytes) -> None:
    with pytest.raises(UnreadableText):
        parse_integer(text, -(1 << 63), 1 << 63)
    assert parse_integer(b"-12", -12, 5) == -12
    with pytest.raises(UnreadableText, match="not between 0 and 5"):
        parse_integer("6", 0, 5)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text('ab"\\u'), inner),
)


@given(VALUES, st.booleans())
def test_json_within_the_bounds_is_read(value: object, is_escaped: bool) -> None:
    text = json.dumps(value, ensure_ascii=is_escaped)
    assert parse_json(text) == value
    assert parse_json(text.encode()) == value
    assert first_json_value(f" {text} rest") == value or not isinstance(value, dict | list)


def test_depth_is_bounded_at_its_limit() -> None:
    for opening, closing in ("[]", ('{"a":', "}")):
        inner = "1" if closing == "}" else ""
        parse_json(opening * DEPTH_MAX + inner + closing * DEPTH_MAX)
        with pytest.raises(UnreadableText, match="levels"):
            parse_json(opening * (DEPTH_MAX + 1) + inner + closing * (DEPTH_MAX + 1))


def test_decimals_keep_their_digits() -> None:
    assert parse_json("[0.10, 1e-3, 7]", is_decimal=True) == [Decimal("0.10"), Decimal("0.001"), 7]
    for text in ("1e999999999999999999999999", "1e500", "NaN"):
        with pytest.raises(UnreadableText):
            parse_json(text, is_decimal=True)


@pytest.mark.parametrize(
    "text",
    [
        *("a = " + "9" * 5_000, "a = 9223372036854775808", "a = " + "[" * 3_000),
        *(".".join("a" * 3_000), f"{'.'.join('a' * 3_000)} = 1", "a = \0", "a ="),
    ],
    ids=["digits", "65 bits", "arrays", "keys without a value", "keys", "NUL", "cut"],
)
def test_toml_beyond_the_bounds_is_refused(text: str) -> None:
    with pytest.raises(UnreadableText):
        parse_toml(text)
