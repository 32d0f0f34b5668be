"""Moves replicas and leaders between brokers, restarts brokers, and says what a cluster needs."""
