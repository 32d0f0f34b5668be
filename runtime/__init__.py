"""The doors to the outside: clock, randomness, files, timers, tasks, metrics, logging."""
