"""One cluster mirrored to another: names, records, offsets, and the writes."""
