"""What a run reports: progress, metrics, and failures in one line."""
