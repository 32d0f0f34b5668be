"""Completion of command lines in shells; docs.generate.completion makes the scripts beside."""
