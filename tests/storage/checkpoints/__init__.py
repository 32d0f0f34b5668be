"""Tests of storage/checkpoints."""
