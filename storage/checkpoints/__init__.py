"""The small files of a data directory: offsets, leader epochs, topic id, whose data it is."""
