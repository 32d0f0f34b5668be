"""One file per API: plain functions that decide without waiting and return an outcome."""
