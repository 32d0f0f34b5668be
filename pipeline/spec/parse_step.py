"""The parse step: from bytes or text to columns."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from odradek.pipeline.spec.epoch import Epoch, check_epoch
from odradek.pipeline.spec.field_types import Name, Names, Part, Text, Topic, first_duplicate
from odradek.pipeline.spec.row_schema import avro_columns_of, columns_of, flat_columns_of

DELETED: Final = "deleted"
"""The column of a parse step that is true for the deletion of a row."""


CORRUPT: Final = "_corrupt"
"""The column in which Spark's readers put a row that does not match the schema."""


class Step(Part):
    source: Name = Field(alias="from")
    """The source or earlier step whose rows are taken."""


class Parse(Step):
    """Parses the bytes or text of one column into columns.

    schema   as in `CREATE TABLE`; with `format = "avro"` the Avro schema in JSON.  NOT NULL means
             the same as `required`
    epoch    the unit of numbers in TIMESTAMP columns of JSON and CSV; without it a row with such a
             number is a dead letter
    rejects  topic (of `rejects_cluster`) for dead letters, with reason and position of the record
             in headers `odradek.*`, and with its own headers if the source reads them
             (`headers = true`); None: rows that cannot be parsed are dropped
    """

    kind: Literal["parse"]
    format: Literal["json", "csv", "avro"]
    """How rows are encoded."""
    row_schema: Text = Field(alias="schema")
    epoch: Epoch = None
    column: Text = "value"
    """The column that is parsed."""
    envelope: Literal["debezium"] | None = None
    """The row is in a change event of Debezium, in JSON with or without schemas: the schema is that
    of `after`, and of `before` for a deletion.  Adds the column `deleted`."""
    tombstones: Literal["reject", "drop", "keep"] = "reject"
    """Records without a value are dead letters; or dropped, such as those that Debezium writes
    after a deletion; or kept with null in all parsed columns.  `keep` adds the column `deleted`."""
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
    def _known_types(cls, text: str, info: ValidationInfo) -> str:
        if info.data.get("format") == "avro":
            avro_columns_of(text)
        elif "format" in info.data:
            names = (flat_columns_of if info.data["format"] == "csv" else columns_of)(text)
            if CORRUPT in names:
                raise ValueError(f"a column {CORRUPT} is there already; give it another name")
        return text

    @model_validator(mode="after")
    def _known_columns(self) -> Self:
        is_avro = self.format == "avro"
        names = (avro_columns_of if is_avro else columns_of)(self.row_schema)
        for name in self.required:
            if name not in names:
                raise ValueError(
                    f"required: the schema has no {name!r}; it has: {', '.join(names)}"
                )
        if self.marks_deletions and first_duplicate([*names, *self.keep, DELETED]) is not None:
            raise ValueError(f"a column {DELETED} is added, and cannot be in schema or keep")
        again = first_duplicate([*names, *self.keep])
        if again is not None:
            raise ValueError(f"keep: the schema has a column {again!r} too")
        return self

    @property
    def marks_deletions(self) -> bool:
        """Whether the column `deleted` is added."""
        return self.envelope is not None or self.tombstones == "keep"

    @model_validator(mode="after")
    def _envelope_is_json(self) -> Self:
        if self.envelope is not None and self.format != "json":
            raise ValueError('envelope needs format = "json"')
        return self

    @model_validator(mode="after")
    def _epoch_has_columns(self) -> Self:
        if self.format == "avro" and self.epoch is not None:
            raise ValueError("epoch: an Avro schema gives the unit itself: timestamp-millis, ...")
        if self.format != "avro":
            check_epoch(self.epoch, self.row_schema)
        return self

    @model_validator(mode="after")
    def _rejects_need_a_cluster(self) -> Self:
        if (self.rejects is None) != (self.rejects_cluster is None):
            raise ValueError("rejects and rejects_cluster belong together")
        return self
