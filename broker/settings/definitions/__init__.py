"""Every setting of Kafka 3.9: name, type, default, bounds, importance, documentation."""
