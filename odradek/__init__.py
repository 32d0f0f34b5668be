"""The `odradek` command, its tools, and the packages that they are made of."""
