"""Real client libraries against a broker process."""
