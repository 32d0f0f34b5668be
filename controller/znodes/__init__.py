"""Kafka's znodes: paths, JSON, reads, and writes fenced by the controller epoch."""
