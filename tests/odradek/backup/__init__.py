"""Backup and restore: of brokers of ours and of Apache Kafka, in folders and buckets."""
