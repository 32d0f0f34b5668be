"""The composition root: one broker, its process and its periodic work."""
