"""`odradek consumer-groups`: list, describe, reset and delete groups."""
