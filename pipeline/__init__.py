"""Pipelines on Spark: a small file says source, steps and sink; see README.md."""
