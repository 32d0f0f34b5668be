"""Pipelines on Spark: a file declares sources, steps and sinks; see README.md."""
