"""Tests of storage/producers."""
