"""Pages that are made of the code: they cannot differ from it."""
