"""Sessions of Spark: how Java is started, its connectors, and its objects."""
