"""TLS and SASL on the side of a client, from Kafka's client properties."""
