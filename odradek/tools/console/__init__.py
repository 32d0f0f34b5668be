"""`odradek console-producer` and `odradek console-consumer`."""
