"""What is published: the source distribution and the wheel."""
