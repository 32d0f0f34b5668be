"""The parse step: from bytes or text to columns."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from odradek.pipeline.spec.ends import check_message, check_rejects
from odradek.pipeline.spec.field_types import Name, Names, Part, Text, Topic, first_duplicate
from odradek.pipeline.spec.row_schema import (
    Epoch,
    avro_columns_of,
    check_epoch,
    columns_of,
    flat_columns_of,
)

DELETED: Final = "deleted"
"""The column of a parse step that is true for the deletion of a row."""


UNAVAILABLE: Final = "unavailable"
"""The column of a parse step with the names of the columns whose values are not known."""


CORRUPT: Final = "_corrupt"
"""The column in which Spark's readers put a row that does not match the schema."""


class Step(Part):
    source: Name = Field(alias="from")
    """The source or earlier step whose rows are taken."""

    @property
    def views(self) -> dict[str, str]:
        """Key -> the view that it names."""
        return {"from": self.source}


class Parse(Step):
    """Parses the bytes or text of one column into columns.

    schema   as in `CREATE TABLE`; with `format = "avro"` the Avro schema in JSON, and with a
             registry the latest version of `subject` unless it is given.  NOT NULL means the same
             as `required`
    epoch    the unit of numbers in TIMESTAMP columns of JSON and CSV; without it a row with such a
             number is a dead letter
    rejects  topic (of `rejects_cluster`) for dead letters, with reason and position of the record
             in headers `odradek.*`, and with its own headers if the source reads them
             (`headers = true`); None: rows that cannot be parsed are dropped
    """

    kind: Literal["parse"]
    format: Literal["json", "csv", "avro", "protobuf"]
    """How rows are encoded."""
    row_schema: Text | None = Field(None, alias="schema")
    registry: Text | None = None
    """A table of `[registries]`: each record has the id of its writer's schema before it.  Avro is
    read by that schema, into the columns of `schema`."""
    subject: Text | None = None
    """The subject of the registry whose latest version is the schema; None: `TOPIC-value`."""
    descriptor: Text | None = Field(None, examples=["shop.desc"])
    """For Protobuf, the file that `protoc --include_imports --descriptor_set_out` writes, relative
    to the pipeline file."""
    message: Text | None = Field(None, examples=["shop.Order"])
    """The message in `descriptor`, with its package."""
    epoch: Epoch = None
    column: Text = "value"
    """The column that is parsed."""
    envelope: Literal["debezium"] | None = None
    """The row is in a change event of Debezium, in JSON with or without schemas: the schema is that
    of `after`, and of `before` for a deletion.  Adds the column `deleted`."""
    tombstones: Literal["reject", "drop", "keep"] = "reject"
    """Records without a value are dead letters; or dropped, such as those that Debezium writes
    after a deletion; or kept with null in all parsed columns.  `keep` adds the column `deleted`."""
    unavailable: Literal["reject", "keep"] = "reject"
    """Rows with the placeholder of Debezium for a value that it does not know (an unchanged value
    of PostgreSQL's TOAST storage) are dead letters; or such columns are null, and the column
    `unavailable` that `keep` adds, an ARRAY<STRING>, has their names.  Deletions are never dead
    letters for that reason."""
    unavailable_placeholder: Text = "__debezium_unavailable_value"
    """Placeholder of the connector.  Debezium's `unavailable.value.placeholder`."""
    keep: Names = []
    """Columns of the source that are kept unchanged.  The `key` of a Kafka source is bytes, which a
    JSON sink writes in base64; for text use a map step before: `key = "CAST(key AS STRING)"`."""
    required: list[Text] = []
    """Parsed columns that may not be null."""
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    """Between the values of CSV."""
    rejects: Topic | None = None
    rejects_cluster: Text | None = None
    """The table of `[clusters]` whose topic gets dead letters."""

    @field_validator("row_schema")
    @classmethod
    def _known_types(cls, text: str | None, info: ValidationInfo) -> str | None:
        if text is None:
            return None
        if info.data.get("format") == "avro":
            avro_columns_of(text)
        elif "format" in info.data:
            names = (flat_columns_of if info.data["format"] == "csv" else columns_of)(text)
            if CORRUPT in names:
                raise ValueError(f"a column {CORRUPT} is there already; give it another name")
        return text

    @model_validator(mode="after")
    def _known_columns(self) -> Self:
        if self.row_schema is None:
            return self
        names = (columns_of if self.is_text else avro_columns_of)(self.row_schema)
        for name in self.required:
            if name not in names:
                raise ValueError(
                    f"required: the schema has no {name!r}; it has: {', '.join(names)}"
                )
        if self.marks_deletions and first_duplicate([*names, *self.keep, DELETED]) is not None:
            raise ValueError(f"a column {DELETED} is added, and cannot be in schema or keep")
        if self.unavailable == "keep" and first_duplicate([*names, *self.keep, UNAVAILABLE]):
            raise ValueError(f"a column {UNAVAILABLE} is added, and cannot be in schema or keep")
        again = first_duplicate([*names, *self.keep])
        if again is not None:
            raise ValueError(f"keep: the schema has a column {again!r} too")
        return self

    @property
    def is_text(self) -> bool:
        """Whether values have no types of their own."""
        return self.format in ("json", "csv")

    @property
    def marks_deletions(self) -> bool:
        """Whether the column `deleted` is added."""
        return self.envelope is not None or self.tombstones == "keep"

    @field_validator("unavailable_placeholder")
    @classmethod
    def _is_hexadecimal(cls, placeholder: str) -> str:
        if placeholder.startswith("hex:"):
            try:
                bytes.fromhex(placeholder.removeprefix("hex:"))
            except ValueError as error:
                raise ValueError(f"{placeholder!r} has no hexadecimal digits after hex:") from error
        return placeholder

    @model_validator(mode="after")
    def _envelope_is_json(self) -> Self:
        if self.envelope is not None and self.format != "json":
            raise ValueError('envelope needs format = "json"')
        return self

    @model_validator(mode="after")
    def _epoch_has_columns(self) -> Self:
        if self.is_text and self.row_schema is not None:
            check_epoch(self.epoch, self.row_schema)
        elif self.epoch is not None:
            raise ValueError("epoch: a schema gives the unit itself: timestamp-millis, ...")
        return self

    @model_validator(mode="after")
    def _one_schema(self) -> Self:
        is_protobuf = self.format == "protobuf"
        check_message(self.format, self.descriptor, self.message)
        if is_protobuf and self.row_schema is not None:
            raise ValueError("schema: the columns of Protobuf are the fields of message")
        is_in_registry = self.format == "avro" and self.registry is not None
        if self.row_schema is None and not is_protobuf and not is_in_registry:
            raise ValueError("schema must be given")
        if self.registry is not None and self.format == "csv":
            raise ValueError('registry: for format = "avro", "protobuf" or "json"')
        if self.registry is not None and self.envelope is not None:
            raise ValueError("envelope: change events of a registry are Avro records; flatten them")
        if self.subject is not None and (not is_in_registry or self.row_schema is not None):
            raise ValueError("subject: for Avro of a registry without schema")
        return self

    @model_validator(mode="after")
    def _rejects_need_a_cluster(self) -> Self:
        check_rejects(self.rejects, self.rejects_cluster)
        return self
