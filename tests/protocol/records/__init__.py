"""Tests of protocol/records."""
