"""Tests; the folders mirror the tree."""
