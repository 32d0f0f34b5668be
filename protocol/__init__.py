"""Bytes to values and back: Kafka's messages, headers and record batches, without I/O or state."""
