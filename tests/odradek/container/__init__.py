"""The environment of a container."""
