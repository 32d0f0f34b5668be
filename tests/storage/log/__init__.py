"""Tests of storage/log."""
