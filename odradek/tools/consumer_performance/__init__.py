"""`odradek consumer-perf-test`."""
