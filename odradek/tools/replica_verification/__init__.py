"""`odradek replica-verification`: compare the replicas of partitions."""
