"""The group coordinator: members, generations and committed offsets of groups."""
