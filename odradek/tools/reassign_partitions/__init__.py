"""`odradek reassign-partitions`: move replicas between brokers and between log directories."""
