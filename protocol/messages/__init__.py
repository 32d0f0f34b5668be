"""The messages of the Kafka protocol: one file for each API, request and response side by side."""
