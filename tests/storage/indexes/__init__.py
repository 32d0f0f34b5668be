"""Tests of storage/indexes."""
