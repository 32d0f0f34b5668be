"""What a node does: server edge, handlers, replication, settings, composition root."""
