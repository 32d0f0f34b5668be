"""`odradek explain-lookup`."""
