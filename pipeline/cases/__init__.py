"""Tests of pipelines: given rows in, expected rows out (`odradek pipeline test`)."""
