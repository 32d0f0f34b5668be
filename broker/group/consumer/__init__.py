"""Groups of the new protocol (KIP-848): the coordinator assigns, members are led to it stepwise."""
