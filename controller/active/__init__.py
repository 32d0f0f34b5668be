"""What the active controller does: elections, admin requests, deletions, the states it writes."""
