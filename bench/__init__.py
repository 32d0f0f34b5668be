"""Reproducible measurements of Odradek beside other brokers: `python -m bench --help`."""
