"""Log compaction: which log to clean, what to keep of it, and what takes the old files' places."""
