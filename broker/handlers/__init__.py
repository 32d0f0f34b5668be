"""One file per API: plain functions that decide at once and answer with data."""
