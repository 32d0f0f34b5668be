"""Tests of the control channel."""
