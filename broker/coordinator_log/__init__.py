"""How coordinators load a partition of an internal topic."""
