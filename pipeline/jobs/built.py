"""The DataFrames of a pipeline before anything runs."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from odradek.pipeline.spec.sinks import Sink
from odradek.pipeline.transforms.parse import Decoding


@dataclass(frozen=True, slots=True)
class Built:
    """The DataFrames of a pipeline.

    outputs    what each sink writes, by the name of its query
    views      of sources and steps
    decodings  of parse steps of a registry, or of Protobuf
    """

    outputs: dict[str, tuple[DataFrame, Sink]]
    views: dict[str, DataFrame]
    decodings: dict[str, Decoding]
