"""A demonstration: card payments with planted hot merchants and anomalies."""
