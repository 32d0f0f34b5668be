"""SASL: mechanisms, the exchanges of clients and of this broker, and who has authenticated."""
