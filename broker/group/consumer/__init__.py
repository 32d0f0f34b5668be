"""Consumer groups (KIP-848): the coordinator assigns, and members reconcile step by step."""
