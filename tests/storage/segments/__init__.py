"""Tests of storage/segments."""
