"""`odradek producer-perf-test`."""
