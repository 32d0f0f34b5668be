"""`odradek cluster-status`."""
