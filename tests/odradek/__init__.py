"""Tests of the `odradek` command and its tools."""
