"""Coordination sessions with ZooKeeper's semantics, and the embedded tree."""
