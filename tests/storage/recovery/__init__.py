"""Tests of storage/recovery."""
