"""Tests of storage/directories."""
