"""A partition's log on a file system, byte-compatible with Apache Kafka's data directories."""
