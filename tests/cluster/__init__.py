"""Several brokers: replication, failover, moves; and what clients see of them."""
