"""Coordination sessions with ZooKeeper's semantics, and the tree that is embedded here."""
