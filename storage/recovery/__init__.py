"""Loading the folder of a log, and checking what an unclean stop may have torn."""
