"""`odradek configs`: describe and alter the dynamic configuration of topics and brokers."""
