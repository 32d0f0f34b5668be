"""`odradek cluster`: several brokers on one machine."""
