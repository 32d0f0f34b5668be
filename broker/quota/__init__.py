"""How much clients may do: rates, their limits, and how long a client over its limit waits."""
