"""What the pages show, as plain data: templates and JSON are made of it."""
