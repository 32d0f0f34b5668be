"""Tests of storage/files."""
