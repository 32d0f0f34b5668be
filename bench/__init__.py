"""Reproducible measurements of Odradek beside other brokers: `python -m bench --help`."""

import os

import tests  # noqa: F401 - which asks for poison

os.environ.pop("ODRADEK_POISON_LENT_MEMORY", None)
