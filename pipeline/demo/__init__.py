"""The worked example: card payments with planted hot merchants and anomalies."""
