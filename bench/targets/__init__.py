"""The brokers that are measured, each behind the same small interface."""
