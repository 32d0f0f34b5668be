"""Partitions as a replica sees them: leadership, high watermark, fetch sessions."""
