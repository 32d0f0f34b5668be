"""Turns records of a registry, and Protobuf, into what Spark parses: Avro of one schema, or JSON.

A record in Avro is decoded by the schema that its writer has registered, and encoded again by the
reader's; one of the reader's own schema is taken as it is.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final

import fastavro
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf

from odradek.bounded_parsing import parse_json
from odradek.pipeline.registry import frames
from odradek.pipeline.registry.avro_schema import avro_text
from odradek.pipeline.registry.client import NoSuchSchema, RegistryFailed, client_of
from odradek.pipeline.registry.protobuf import (
    BadDescriptor,
    avro_schema,
    indexes_of,
    message_type,
    translator,
)
from odradek.pipeline.spec.bounded_files import read_bytes
from odradek.pipeline.spec.ends import Registry
from odradek.pipeline.spec.parse_step import Parse
from odradek.pipeline.transforms.columns import StepInputError
from odradek.pipeline.transforms.parse import Decoding

OUTCOME: Final = "payload BINARY, fault STRING"
READERS_MAX: Final = 64
"""Bound on what a worker keeps for the parse steps of its jobs."""
UNKNOWN_S: Final = 10.0
"""How long an id that the registry does not know is not asked for again."""
UNKNOWN_MAX: Final = 10_000
TEXT_MAX: Final = 200
"""Characters of a library's reason in a dead letter."""
Translate = Callable[[bytes], bytes]


class _Bad(Exception):
    """A record that cannot be read; the text is the reason."""


def decoding_of(
    step: Parse, registries: Mapping[str, Registry], topic: str | None, folder: Path
) -> Decoding | None:
    """None for a step whose column is parsed as it is.

    topic   that the rows come from, if it is one
    folder  of the pipeline file
    raises  StepInputError, RegistryFailed, OSError
    """
    if step.format == "protobuf":
        return _protobuf(step, folder)
    if step.registry is None:
        return None
    if step.format != "avro":
        return Decoding(None, _without_header)
    registry = registries[step.registry].model_dump_json()
    schema = step.row_schema
    if schema is None:
        subject = step.subject or f"{topic}-value"
        try:
            client = client_of(registry)
            schema = avro_text(client, client.newest(subject)[1])
        except RegistryFailed:
            raise
        except (NoSuchSchema, StepInputError) as error:
            raise StepInputError(f"subject {subject}: {error}") from error
    return Decoding(schema, _applied(partial(_avro_reader, registry, schema)))


def descriptor_set_of(folder: Path, file: str | None) -> bytes:
    """raises  OSError"""
    assert file is not None, "the model has a descriptor"
    return read_bytes(folder / file)


def _protobuf(step: Parse, folder: Path) -> Decoding:
    descriptor_set = descriptor_set_of(folder, step.descriptor)
    assert step.message is not None, "the model has a message"
    try:
        message = message_type(descriptor_set, step.message).DESCRIPTOR
        schema = avro_schema(message)
    except BadDescriptor as error:
        raise StepInputError(f"{step.descriptor}: {error}") from error
    is_framed, indexes = step.registry is not None, indexes_of(message)
    return Decoding(
        schema, _applied(partial(_message_reader, descriptor_set, step.message, indexes, is_framed))
    )


def _without_header(data: Column) -> Column:
    """In Spark's own expressions: the rest of a frame, whatever its id is."""
    is_frame = (F.length(data) >= frames.HEADER_BYTES) & (
        F.substring(data, 1, 1) == F.lit(bytes([frames.MAGIC]))
    )
    payload = F.substring(data, frames.HEADER_BYTES + 1, (1 << 31) - 1)
    return F.when(
        data.isNotNull(),
        F.struct(
            F.when(is_frame, payload).alias("payload"),
            F.when(~is_frame, F.lit(frames.NOT_FRAMED)).alias("fault"),
        ),
    )


def _applied(translate_in: Callable[[], Translate]) -> Callable[[Column], Column]:
    """Applies on the executors what a function makes there."""
    import pandas

    def outcomes(frames_in: pandas.Series) -> pandas.DataFrame:
        translate = translate_in()
        payloads: list[bytes | None] = []
        faults: list[str | None] = []
        for frame in frames_in:
            payload = fault = None
            if frame is not None:
                try:
                    payload = translate(frame)
                except _Bad as error:
                    fault = str(error)
            payloads.append(payload)
            faults.append(fault)
        return pandas.DataFrame({"payload": payloads, "fault": faults}, dtype=object)

    outcomes.__annotations__ = {"frames_in": pandas.Series, "return": pandas.DataFrame}
    of_series: Any = pandas_udf
    computed = of_series(outcomes, OUTCOME)
    return lambda data: computed(data.cast("binary"))


def _short(error: object) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 3] + "..."


@lru_cache(maxsize=READERS_MAX)
def _message_reader(
    descriptor_set: bytes, name: str, indexes: tuple[int, ...], is_framed: bool
) -> Translate:
    translate = translator(descriptor_set, name)

    def read(data: bytes) -> bytes:
        place = 0
        if is_framed:
            if frames.id_of(data) is None:
                raise _Bad(frames.NOT_FRAMED)
            try:
                present, place = frames.after_indexes(data)
            except ValueError as error:
                raise _Bad(str(error)) from error
            if present != indexes:
                raise _Bad(f"another message of its file, {list(present)}, than {name}")
        try:
            return translate(data[place:])
        except Exception as error:
            # A number or a time that Avro has no place for raises another error than DecodeError.
            raise _Bad(f"not a message {name}: {_short(error)}") from error

    return read


@lru_cache(maxsize=READERS_MAX)
def _avro_reader(registry: str, schema: str) -> Translate:
    return _AvroReader(registry, schema).read


class _AvroReader:
    """Reads records of any schema of a registry by one schema.

    registry  the model as JSON
    """

    def __init__(self, registry: str, schema: str) -> None:
        self._registry = registry
        self._schema = fastavro.parse_schema(parse_json(schema))
        self._written = parse_json(schema)
        self._readers: dict[int, Translate] = {}
        self._unknown_until_s: dict[int, float] = {}

    def read(self, frame: bytes) -> bytes:
        """The record by the reader's schema; raises _Bad, RegistryFailed."""
        schema_id = frames.id_of(frame)
        if schema_id is None:
            raise _Bad(frames.NOT_FRAMED)
        translate = self._readers.get(schema_id)
        if translate is None:
            translate = self._readers[schema_id] = self._translator(schema_id)
        return translate(frame[frames.HEADER_BYTES :])

    def _translator(self, schema_id: int) -> Translate:
        """What reads the records of a schema; of one that cannot be read, what says so."""
        if time.monotonic() < self._unknown_until_s.get(schema_id, 0.0):
            raise _unknown(schema_id)
        try:
            schema = client_of(self._registry).by_id(schema_id)
        except NoSuchSchema:
            if len(self._unknown_until_s) >= UNKNOWN_MAX:
                self._unknown_until_s.clear()
            # It may be registered later: the registry is asked again.
            self._unknown_until_s[schema_id] = time.monotonic() + UNKNOWN_S
            raise _unknown(schema_id) from None
        try:
            written = parse_json(avro_text(client_of(self._registry), schema))
            if written == self._written:
                return lambda data: data
            writer = fastavro.parse_schema(written)
        except RegistryFailed:
            raise
        except NoSuchSchema as error:
            return _failing(f"schema id {schema_id}: a schema to which it refers: {error}")
        except Exception as error:  # noqa: BLE001 - the errors of the library are many
            return _failing(f"schema id {schema_id}: {_short(error)}")
        return self._between(writer, schema_id)

    def _between(self, writer: Any, schema_id: int) -> Translate:
        def translate(data: bytes) -> bytes:
            source, target = io.BytesIO(data), io.BytesIO()
            try:
                # With its name, a record of a union is written as the same one of several.
                record = fastavro.schemaless_reader(
                    source, writer, self._schema, return_named_type=True
                )
                fastavro.schemaless_writer(target, self._schema, record)
            except Exception as error:
                raise _Bad(f"not a record of schema id {schema_id}: {_short(error)}") from error
            if source.tell() != len(data):
                raise _Bad(f"something follows the record of schema id {schema_id}")
            return target.getvalue()

        return translate


def _unknown(schema_id: int) -> _Bad:
    return _Bad(f"schema id {schema_id} is not in the registry")


def _failing(reason: str) -> Translate:
    def fail(data: bytes) -> bytes:
        raise _Bad(reason)

    return fail
