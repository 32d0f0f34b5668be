"""What `odradek pipeline` runs; thin."""
