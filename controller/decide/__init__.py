"""The controller's decisions: (image, command or event) -> data.  Pure."""
