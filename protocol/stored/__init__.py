"""Records of the internal topics, and the subscriptions and assignments of classic members."""
