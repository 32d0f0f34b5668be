"""Tests of what starts brokers for tests of other projects."""
