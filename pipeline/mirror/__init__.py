"""Mirrors one cluster to another: topic names, records, offsets and groups."""
