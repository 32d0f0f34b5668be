"""`odradek demo`: what the cluster promises, shown on this machine."""
