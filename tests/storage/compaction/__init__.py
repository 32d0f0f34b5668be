"""Cleaning a log: what stays, what goes, and what a crash leaves."""
