"""`odradek backup` and `odradek restore`: the records of topics in files, and back into logs."""
