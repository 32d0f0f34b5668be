"""Records of topics: fetched with their batches, matched, decoded."""
