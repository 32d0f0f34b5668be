"""`odradek acls`: add, remove and list access control lists."""
