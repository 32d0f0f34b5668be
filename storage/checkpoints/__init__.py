"""The small files of a data directory: offsets, leader epochs, topic id, the owner of the data."""
