"""What a node does: server, handlers, groups, replication, settings, and the node itself."""
