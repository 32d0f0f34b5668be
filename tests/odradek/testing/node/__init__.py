"""Tests of the node that tests observe and make fail."""
