"""Replicas of partitions: leadership, high watermark, appends, reads, fetch sessions."""
