"""Connections of this broker to the others, as their client."""
