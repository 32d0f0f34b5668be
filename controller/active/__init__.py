"""The active controller: events, admin requests, deletions, partition states."""
