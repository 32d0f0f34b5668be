"""Finds the mistakes of a pipeline file without Spark (`odradek pipeline check`)."""
