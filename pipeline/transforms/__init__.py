"""The steps of a pipeline file as functions from DataFrame to DataFrame, without I/O."""
