"""Writing: from DataFrames to the kinds of sinks."""
