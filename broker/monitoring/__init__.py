"""What operators and their programs see of a broker: metrics and health, over HTTP."""
