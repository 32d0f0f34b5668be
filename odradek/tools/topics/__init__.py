"""`odradek topics`: create, list, describe, alter and delete topics."""
