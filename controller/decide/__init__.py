"""Decisions of the active controller: (image, request or event) -> data.  Pure."""
