"""`odradek console-producer`: send lines to a topic."""
