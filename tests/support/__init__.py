"""Support code for tests."""
