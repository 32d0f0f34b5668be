"""Tests; the folders mirror the tree."""

import os

# Before anything of the product is imported; brokers that tests start as processes inherit it.
os.environ["ODRADEK_POISON_LENT_MEMORY"] = "1"
