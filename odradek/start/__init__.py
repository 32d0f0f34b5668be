"""`odradek start` and `odradek server-start`: a broker in the foreground."""
