"""The mirror file: two clusters, which topics and which groups.

[mirror]
name = "east-to-west"
checkpoint = "state"

[source]
alias = "east"
bootstrap_servers = "east:9092"

[target]
alias = "west"
bootstrap_servers = "west:9092"

[topics]
pattern = "payments.*"

[groups]
sync_offsets = true
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, model_validator

from odradek.pipeline.spec.document import Document, Outside, read_document
from odradek.pipeline.spec.field_types import ColumnNames, Duration, Options, Part, Text
from odradek.pipeline.spec.key_lines import Path
from odradek.pipeline.spec.load import checked
from odradek.pipeline.spec.replication_policy import GROUPS_EXCLUDED, TOPICS_EXCLUDED


def _compiled(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error
    return pattern


Pattern = Annotated[Text, AfterValidator(_compiled)]
"""A regular expression for whole names, in the common syntax of Java and Python."""
Alias = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")]
"""The name of a cluster, without dots, since it is a prefix of topic names."""


class MirrorHead(Part):
    """The table `[mirror]`.

    checkpoint  the folder of the mirror's progress
    mode        stream: run until stopped; available_now: mirror the present records, then end
    """

    name: Text
    """Names the application in Spark."""
    checkpoint: Text
    mode: Literal["stream", "available_now"] = "stream"
    trigger: Duration | None = None
    """In stream mode, the interval of batches; None: start a batch when the last one is done."""
    interval_ms: Annotated[int, Field(ge=100, le=3_600_000)] = 60_000
    """Interval of heartbeats, checkpoints, group offsets and the search for new topics."""
    heartbeats: bool = True
    """Write a record to the topic `heartbeats` of both clusters each interval."""
    spark: Options = {}
    """Settings of the Spark session."""


class End(Part):
    """One of the two clusters.

    options  client properties in librdkafka's names (`security.protocol`, ...)
    """

    alias: Alias
    """The name of the cluster in the names of topics; without dots."""
    bootstrap_servers: Text
    """HOST:PORT of brokers, separated by commas."""
    options: Options = {}


class SourceEnd(End):
    """The source cluster.

    spark_options  client properties in Java's names, for Spark's consumers
    """

    spark_options: Options = {}


class Topics(Part):
    """The table `[topics]`.

    exclude                  patterns; internal topics and topics mirrored from the target are
                             always excluded
    policy                   default: ALIAS.topic; identity: the same name, without a check for
                             cycles
    max_offsets_per_trigger  bound on the records of a batch over all partitions, and so on the
                             records that can be written twice
    """

    names: ColumnNames | None = None
    """Topics; this or `pattern` must be given."""
    pattern: Pattern | None = None
    """A regular expression for whole names, in the common syntax of Java and Python."""
    exclude: list[Pattern] = list(TOPICS_EXCLUDED)
    policy: Literal["default", "identity"] = "default"
    starting_offsets: Literal["earliest", "latest"] = "earliest"
    """For the partitions at the start of the mirror; later ones are read from their start."""
    max_offsets_per_trigger: Annotated[int, Field(ge=1, le=10_000_000)] = 100_000
    replication_factor: Annotated[int, Field(ge=1, le=32_767)] | None = None
    """Replication factor of topics created on the target; None: the default of that cluster."""
    sync_configs: bool = True
    """Copy changes of topics' configs to the target, each interval."""
    fail_on_data_loss: bool = True
    """Fail when records of the source were deleted before they were read."""

    @model_validator(mode="after")
    def _one_way_to_choose(self) -> Self:
        if (self.names is None) == (self.pattern is None):
            raise ValueError("one of names and pattern must be given")
        return self


class Groups(Part):
    """The table `[groups]`: whose offsets are translated.

    sync_offsets  also commit them on the target, for groups without members there
    """

    pattern: Pattern = ".*"
    """A regular expression for whole names of groups."""
    exclude: list[Pattern] = list(GROUPS_EXCLUDED)
    """Patterns of groups that are left out."""
    sync_offsets: bool = False


class Mirror(Part):
    """A mirror file."""

    mirror: MirrorHead
    source: SourceEnd
    target: End
    topics: Topics
    groups: Groups = Groups()


PARTS: Final[dict[str | int, type[BaseModel]]] = {
    "mirror": MirrorHead,
    "source": SourceEnd,
    "target": End,
    "topics": Topics,
    "groups": Groups,
}


def mirror_of(document: Document) -> Mirror:
    """The mirror that a document describes.

    raises  SpecError
    """
    return checked(document, Mirror, allowed=_allowed, faults=_faults)


def parse(text: str, path: FilePath) -> Mirror:
    """Parse the text of a mirror file without variables; `path` is its name in errors.

    raises  SpecError
    """
    return mirror_of(read_document(text, path, Outside()))


def _allowed(where: Path, _document: object) -> list[str]:
    part = PARTS.get(where[0], Mirror) if len(where) > 1 else Mirror
    return list(part.model_fields)


def _faults(mirror: Mirror) -> Iterator[tuple[Path, str]]:
    source, target = mirror.source, mirror.target
    if source.alias == target.alias:
        yield ("target", "alias"), f"{target.alias!r} is the source's alias; they must differ"
    if source.bootstrap_servers == target.bootstrap_servers:
        reason = "is the source's; a cluster is not mirrored into itself"
        yield ("target", "bootstrap_servers"), f"{target.bootstrap_servers!r} {reason}"
    if mirror.mirror.trigger is not None and mirror.mirror.mode != "stream":
        yield ("mirror", "trigger"), 'a trigger needs mode = "stream"'
