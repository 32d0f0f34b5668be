"""The face of the project: the `odradek` command and its tools."""
