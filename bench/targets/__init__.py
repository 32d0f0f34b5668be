"""The brokers that are measured, all with the same small interface."""
