"""`odradek console-consumer`: print records of a topic."""
