"""The transaction coordinator: one shard for each partition of `__transaction_state` led here."""
