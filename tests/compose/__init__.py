"""The images and compose files, run on a Docker engine: `python -m tests.compose`."""
