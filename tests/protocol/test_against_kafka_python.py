"""Every message and version that kafka-python's codec has, both ways."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from typing import Any

import pytest

from odradek.protocol.compiler import decoder, encoder
from odradek.protocol.schema import Field, schema_of
from tests.support.declarations import ValueMaker, declared_classes, versions_of

VALUES_PER_VERSION = 3

OTHER_NAME = {
    "enable_2pc": "enable2_pc",
    "cluster_authorized_operations": "authorized_operations",
    "topic_authorized_operations": "authorized_operations",
}


def kafka_python_classes() -> dict[str, Any]:
    """The classes of kafka-python by name."""
    with warnings.catch_warnings():
        # kafka-python reads its schemas in a way that Python 3.11 calls deprecated
        warnings.simplefilter("ignore", DeprecationWarning)
        package = importlib.import_module("kafka.protocol")
        message = importlib.import_module("kafka.protocol.api_message").ApiMessage
        names = [each.name for each in pkgutil.walk_packages(package.__path__, "kafka.protocol.")]
        modules = [importlib.import_module(name) for name in names if is_current(name)]
    values = [value for module in modules for value in vars(module).values()]
    classes = [each for each in values if isinstance(each, type) and issubclass(each, message)]
    return {each.__name__: each for each in classes if each.__name__ in declared_classes()}


def is_current(module: str) -> bool:
    return not module.startswith(("kafka.protocol.old", "kafka.protocol.generate_stubs"))


KAFKA_PYTHON = kafka_python_classes()


def their_name(field: Field, theirs: Any) -> str:
    """Without the unit that we add to some names."""
    if field.name in theirs._struct.fields:
        return field.name
    return OTHER_NAME.get(field.name) or field.name.removesuffix("_ms").removesuffix("_bytes")


def to_theirs(value: Any, theirs: Any, version: int) -> Any:
    """kafka-python's object with the same values."""
    values = {}
    for each in schema_of(type(value)).fields:
        ours = getattr(value, each.name)
        is_absent_tag = each.tag is not None and ours == each.default
        if version not in each.versions or is_absent_tag:
            continue
        name = their_name(each, theirs)
        field = theirs._struct.fields[name]
        if field.has_data_class() and isinstance(ours, list):
            ours = [to_theirs(item, field.data_class, version) for item in ours]
        elif field.has_data_class() and ours is not None:
            ours = to_theirs(ours, field.data_class, version)
        elif getattr(getattr(field, "_type", None), "__name__", "") == "BitField":
            ours = field._type.from_32_bit_field(ours)
        values[name] = ours
    return theirs(version=version, **values)


@pytest.mark.parametrize("name", KAFKA_PYTHON)
def test_kafka_python_and_we_read_and_write_the_same(name: str) -> None:
    cls, theirs = declared_classes()[name], KAFKA_PYTHON[name]
    first, last = theirs.valid_versions
    for version in versions_of(cls):
        if not first <= version <= last:
            continue
        maker = ValueMaker(f"{name} {version}")
        for _ in range(VALUES_PER_VERSION):
            value = maker.message(cls, version)
            if name == "ApiVersionsResponse":
                value.error_code = 0  # kafka-python reads any other as a response of version 0
            data = encoder(cls, version)(value)
            other = to_theirs(value, theirs, version)
            assert other.encode(version=version) == data
            assert decoder(cls, version)(memoryview(data), 0) == (value, len(data))
            read = theirs.decode(data, version=version)
            read._header = None
            assert read.encode() == data


def test_kafka_python_has_the_messages_of_clients() -> None:
    assert len(KAFKA_PYTHON) > 100
    assert {"ProduceRequest", "FetchResponse", "JoinGroupResponse"} <= KAFKA_PYTHON.keys()
