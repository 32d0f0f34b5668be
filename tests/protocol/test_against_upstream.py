"""Every declaration against Apache Kafka's own schema of the same message, version by version."""

from __future__ import annotations

import re
from typing import Any

import pytest

from odradek.protocol.api_keys import FIRST_FLEXIBLE_VERSION, NEVER_FLEXIBLE, UNDECLARED, ApiKey
from odradek.protocol.schema import (
    ZERO_UUID,
    ArrayOf,
    Field,
    FieldType,
    Primitive,
    Required,
    default_value,
    schema_of,
)
from tests.support import upstream_schemas
from tests.support.declarations import declared_classes, versions_of

UNIT_ADDED = {
    "rebalance_timeout": "rebalance_timeout_ms",
    "session_timeout": "session_timeout_ms",
    "duration_filter": "duration_filter_ms",
    "partition_size": "partition_size_bytes",
    "size": "size_bytes",
}
"""Fields to whose names we add the unit; every name that ends in `timestamp` gets it too."""

OTHER_NAME = {
    "request_api_key": "api_key",
    "request_api_version": "version",
    "client_metrics_resources": "config_resources",
    ("ListConfigResourcesResponse", "name"): "resource_name",
    ("TxnOffsetCommitRequest", "generation_id_or_member_epoch"): "generation_id",
}
"""Fields that releases name differently, under the name of the newer one, and those of headers."""

OTHER_MESSAGE = {
    "ListClientMetricsResourcesRequest": "ListConfigResourcesRequest",
    "ListClientMetricsResourcesResponse": "ListConfigResourcesResponse",
}

TAGGED_SINCE_KAFKA_4 = {
    ("ConsumerGroupCurrentMemberAssignmentValue", "assignment_epochs"),
    ("ConsumerGroupMetadataValue", "metadata_hash"),
    ("ConsumerGroupTargetAssignmentMetadataValue", "assignment_timestamp_ms"),
    ("OffsetCommitValue", "topic_id"),
    ("TransactionLogValue", "client_transaction_version"),
    ("TransactionLogValue", "next_producer_epoch"),
    ("TransactionLogValue", "next_producer_id"),
    ("TransactionLogValue", "previous_producer_id"),
}
"""Tagged fields that came without a version of their own, so that 3.9 does not know them."""

CHANGED_AFTER_EARLY_ACCESS = {
    ("3.9.2", "ReadShareGroupStateSummaryResponse"),
    ("3.9.2", "ShareGroupMetadataValue"),
}
"""Kafka 4 changed these without a new version; 3.9 never served them, so we have those of 4."""

CONTROL_RECORDS = {
    "ControlRecordTypeSchema",
    "DefaultPrincipalData",
    "EndTxnMarker",
    "KRaftVersionRecord",
    "LeaderChangeMessage",
    "SnapshotFooterRecord",
    "SnapshotHeaderRecord",
    "VotersRecord",
}
"""Contents of control records and of Envelope: not messages of the protocol."""

IMPLICIT_DEFAULT: dict[str, Any] = {
    "bool": False,
    "string": "",
    "bytes": b"",
    "uuid": ZERO_UUID,
    "float64": 0.0,
    "records": None,
}


def is_undeclared(schema: dict[str, Any]) -> bool:
    is_message = schema["type"] in ("request", "response")
    return is_message and schema["apiKey"] in UNDECLARED


def expected_schemas() -> list[tuple[str, str]]:
    """(release, name) of everything that must be declared."""
    expected = []
    for release in upstream_schemas.RELEASES:
        for name, schema in upstream_schemas.schemas(release).items():
            is_message = name.endswith(("Request", "Response", "Header"))
            is_old_record = release == "3.9.2" and name not in CONTROL_RECORDS
            is_newer_value = name.endswith("Value") and name in declared_classes()
            if (release, name) in CHANGED_AFTER_EARLY_ACCESS or is_undeclared(schema):
                continue
            if is_message or is_old_record or is_newer_value:
                expected.append((release, name))
    return expected


def our_name(message: str, name: str) -> str:
    plain = name.replace("KRaft", "Kraft").replace("Enable2Pc", "Enable_2pc")
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", plain).lower()
    if snake.endswith("timestamp"):
        return f"{snake}_ms"
    renamed = OTHER_NAME.get((message, snake)) or OTHER_NAME.get(snake)
    return renamed or UNIT_ADDED.get(snake, snake)


def our_type(type_: FieldType) -> str:
    if isinstance(type_, ArrayOf):
        return f"[]{our_type(type_.element)}"
    return type_.name if isinstance(type_, Primitive) else "structure"


def their_type(field: dict[str, Any]) -> str:
    if field["fields"] is None:
        return str(field["type"])
    return "[]structure" if field["type"].startswith("[]") else "structure"


def their_default(field: dict[str, Any]) -> Any:
    """The value, or Required where the schema leaves the default to the type."""
    text = field.get("default")
    if text is None:
        return Required
    if text == "null":
        return None
    if field["type"] == "bool":
        return str(text).lower() == "true"
    return text if field["type"] == "string" else int(str(text), 0)


def check_default(ours: Field, theirs: dict[str, Any], where: str) -> None:
    explicit = their_default(theirs)
    if explicit is not Required:
        assert ours.default == explicit, f"{where}: default"
        return
    if ours.default is Required:
        assert ours.tag is None, f"{where}: a tagged field without default"
        return
    value = default_value(ours)
    if their_type(theirs) == "structure":
        assert theirs["nullable"] == (value is not None), f"{where}: default of a structure"
        return
    implicit = [] if theirs["type"].startswith("[]") else IMPLICIT_DEFAULT.get(theirs["type"], 0)
    is_nullable_and_untagged = theirs["nullable"] and ours.tag is None
    assert value == implicit or (value is None and is_nullable_and_untagged), f"{where}: default"


def check_fields(
    message: str, cls: type, theirs: list[dict[str, Any]], version: int, where: str
) -> None:
    ours = [each for each in schema_of(cls).fields if version in each.versions]
    untagged = [each.name for each in ours if each.tag is None]
    assert untagged == [our_name(message, each["name"]) for each in theirs if each["tag"] is None]
    by_name = {our_name(message, each["name"]): each for each in theirs}
    assert by_name.keys() <= {each.name for each in ours}, where
    for each in ours:
        if each.name in by_name:
            check_field(message, each, by_name[each.name], version, f"{where}.{each.name}")
        else:
            assert (message, each.name) in TAGGED_SINCE_KAFKA_4, f"{where}: {each.name}"


def check_field(
    message: str, ours: Field, theirs: dict[str, Any], version: int, where: str
) -> None:
    assert our_type(ours.type) == their_type(theirs), f"{where}: type"
    assert (version in ours.nullable) == theirs["nullable"], f"{where}: nullable"
    assert ours.tag == theirs["tag"], f"{where}: tag"
    assert ours.is_flexible == (theirs.get("flexibleVersions") != "none"), f"{where}: flexible"
    check_default(ours, theirs, where)
    inner = ours.type.element if isinstance(ours.type, ArrayOf) else ours.type
    if isinstance(inner, type):
        check_fields(message, inner, theirs["fields"], version, where)


@pytest.mark.parametrize(("release", "name"), expected_schemas())
def test_declaration_says_what_the_schema_of_apache_kafka_says(release: str, name: str) -> None:
    schema = upstream_schemas.schemas(release)[name]
    declared = OTHER_MESSAGE.get(name, name)
    cls = declared_classes()[declared]
    flexible = upstream_schemas.version_range(schema.get("flexibleVersions"))
    if not name.endswith(("Key", "Value", "Header")):
        assert schema_of(cls).api_key == schema.get("apiKey")
    for version in upstream_schemas.version_range(schema["validVersions"]):
        assert version in versions_of(cls), f"{name} {version} is not declared"
        assert (version in schema_of(cls).flexible) == (version in flexible)
        theirs = upstream_schemas.fields_of(schema, version)
        check_fields(declared, cls, theirs, version, f"{name} {version}")


@pytest.mark.parametrize("name", declared_classes())
def test_every_declared_version_is_one_of_apache_kafka(name: str) -> None:
    theirs: set[int] = set()
    for release in upstream_schemas.RELEASES:
        for upstream, schema in upstream_schemas.schemas(release).items():
            if OTHER_MESSAGE.get(upstream, upstream) != name:
                continue
            theirs.update(upstream_schemas.version_range(schema["validVersions"]))
            if schema.get("type") == "coordinator-key":
                # Kafka 4 tells kind and version of a record apart; on disk it is one number.
                theirs.add(schema["apiKey"])
    assert set(versions_of(declared_classes()[name])) <= theirs


def test_every_declared_message_is_one_of_apache_kafka() -> None:
    upstream_names = {
        OTHER_MESSAGE.get(name, name)
        for release in upstream_schemas.RELEASES
        for name in upstream_schemas.schemas(release)
    }
    assert declared_classes().keys() <= upstream_names


@pytest.mark.parametrize("key", ApiKey)
def test_header_table_knows_the_first_flexible_version(key: ApiKey) -> None:
    ranges = [
        upstream_schemas.version_range(schema["flexibleVersions"])
        for release in upstream_schemas.RELEASES
        for schema in upstream_schemas.schemas(release).values()
        if schema["type"] == "request" and schema["apiKey"] == key
    ]
    firsts = {flexible.start if flexible else NEVER_FLEXIBLE for flexible in ranges}
    assert firsts == {FIRST_FLEXIBLE_VERSION[key]}
