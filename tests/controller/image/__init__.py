"""Tests of the image."""
