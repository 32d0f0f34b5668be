"""ZooKeeper's client protocol over the embedded tree."""
