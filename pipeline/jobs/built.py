"""The DataFrames of a pipeline before anything runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame

from odradek.pipeline.spec.model import PipelineSpec
from odradek.pipeline.spec.sinks import Sink
from odradek.pipeline.transforms.parse import Decoding


@dataclass(frozen=True, slots=True)
class Built:
    """A pipeline with its DataFrames.

    folder     of the pipeline file, the base of relative paths
    outputs    what each sink writes, by the name of its query
    views      of sources and steps
    decodings  of parse steps of a registry, or of Protobuf
    """

    pipeline: PipelineSpec
    folder: Path
    outputs: dict[str, tuple[DataFrame, Sink]]
    views: dict[str, DataFrame]
    decodings: dict[str, Decoding]
