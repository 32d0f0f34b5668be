"""The log of one partition: append, read, truncate, retain, flush."""
