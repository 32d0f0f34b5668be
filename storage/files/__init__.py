"""File names, open files and the batches in a file."""
