"""Classic groups: the members elect a leader, which assigns the partitions (KIP-62)."""
