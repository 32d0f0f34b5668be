"""The segments of a log, in memory and on disk."""
