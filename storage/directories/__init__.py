"""The directories of log.dirs: all logs of a broker, and their recurring disk work."""
