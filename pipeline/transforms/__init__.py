"""DataFrame -> DataFrame, one step of a pipeline file each; no reads, no writes."""
