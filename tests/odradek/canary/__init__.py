"""`odradek canary`, against clusters whose brokers are killed."""
