"""TLS of listeners, between brokers and to ZooKeeper: settings, stores, contexts, principals."""
