"""Records that coordinators keep in the internal topics, and what members leave in them."""
