"""The cluster: coordination sessions, znodes, the metadata image, elections, the controller."""
