"""The edge of log compaction: when to clean, the worker process, what becomes of its work."""
