"""The pipeline file: what may stand in it, and what is wrong with one."""
