"""The platform layer: clock, randomness, files, timers, tasks, threads, metrics, logging."""
