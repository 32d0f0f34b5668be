"""`odradek canary`: whether each broker takes a record and gives it back, and how fast."""
