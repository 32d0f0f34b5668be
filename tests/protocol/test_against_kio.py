"""Every message and version that kio's codec has, both ways: bytes and every single value."""

from __future__ import annotations

import dataclasses
import datetime
import io
from pkgutil import resolve_name
from typing import Any
from uuid import UUID

import pytest
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer

from odradek.protocol.api_keys import UNDECLARED
from odradek.protocol.compiler import decoder, encoder
from odradek.protocol.schema import NO_VERSION, ZERO_UUID, schema_of
from tests.support.declarations import ValueMaker, declared_classes, versions_of

VALUES_PER_VERSION = 3
EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)
MILLISECOND = datetime.timedelta(milliseconds=1)

OTHER_NAME = {
    "enable2_pc": "enable_2pc",
    "id_": "id",
    "partition_size": "partition_size_bytes",
    "size": "size_bytes",
    "request_api_key": "api_key",
    "request_api_version": "version",
}

CONTENT_OF_CONTROL_RECORDS = {
    "ControlRecordTypeSchema",
    "DefaultPrincipalData",
    "EndTxnMarker",
    "KRaftVersionRecord",
    "LeaderChangeMessage",
    "SnapshotFooterRecord",
    "SnapshotHeaderRecord",
    "VotersRecord",
}


def kio_classes() -> dict[tuple[str, int], Any]:
    """By name and version."""
    classes = {}
    for versions in schema_name_map.values():
        for version, paths in versions.items():
            for path in paths.values():
                cls = resolve_name(path)
                is_undeclared = getattr(cls, "__api_key__", None) in UNDECLARED
                if cls.__name__ not in CONTENT_OF_CONTROL_RECORDS and not is_undeclared:
                    classes[cls.__name__, version] = cls
    return classes


KIO = kio_classes()


def value_of(ours: Any, name: str) -> Any:
    """A field of ours; kio has a structure of defaults where we have None for an absent tag."""
    value = getattr(ours, name)
    field = next(each for each in schema_of(type(ours)).fields if each.name == name)
    is_absent_tag = value is None and field.tag is not None and field.nullable == NO_VERSION
    return field.type() if is_absent_tag and isinstance(field.type, type) else value


def check_equal(ours: Any, theirs: Any, where: str) -> None:
    """Our value and kio's, which has richer types for times and None for the zero id."""
    if dataclasses.is_dataclass(theirs):
        for each in dataclasses.fields(theirs):
            name = OTHER_NAME.get(each.name, each.name)
            name = name if hasattr(ours, name) else f"{name}_ms"
            check_equal(value_of(ours, name), getattr(theirs, each.name), f"{where}.{name}")
    elif isinstance(theirs, tuple):
        assert len(ours) == len(theirs), where
        for our, their in zip(ours, theirs, strict=True):
            check_equal(our, their, where)
    elif isinstance(theirs, datetime.timedelta):
        assert theirs == ours * MILLISECOND, where
    elif isinstance(theirs, datetime.datetime):
        assert (theirs - EPOCH) == ours * MILLISECOND, where
    elif isinstance(ours, UUID):
        assert (theirs or ZERO_UUID) == ours, where
    else:
        assert theirs == ours, where


@pytest.mark.parametrize("name", sorted({name for name, _ in KIO}))
def test_kio_reads_what_we_write_and_we_read_what_kio_writes(name: str) -> None:
    cls = declared_classes()[name]
    for (other, version), theirs in KIO.items():
        if other != name:
            continue
        maker = ValueMaker(f"{name} {version}", times_ms_max=1 << 40)
        for _ in range(VALUES_PER_VERSION):
            value = maker.message(cls, version)
            data = encoder(cls, version)(value)
            read, size = entity_reader(theirs)(data, 0)
            assert size == len(data)
            check_equal(value, read, f"{name} {version}")
            written = io.BytesIO()
            entity_writer(theirs)(written, read)
            assert written.getvalue() == data
            assert decoder(cls, version)(memoryview(written.getvalue()), 0) == (value, len(data))


def test_kio_has_the_newest_version_of_every_message_that_kafka_4_serves() -> None:
    zookeeper_only = {"LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown"}
    for name, cls in declared_classes().items():
        is_message = schema_of(cls).api_key is not None
        if (
            is_message
            and name.removesuffix("Request").removesuffix("Response") not in zookeeper_only
        ):
            assert (name, versions_of(cls)[-1]) in KIO
