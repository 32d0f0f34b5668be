"""Scripted conversations with a broker, and the tool that records them."""
