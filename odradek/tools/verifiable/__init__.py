"""`odradek verifiable-producer` and `odradek verifiable-consumer`."""
