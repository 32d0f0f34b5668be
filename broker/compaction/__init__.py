"""Log compaction: which log to clean when, the worker process, and what follows from its result."""
