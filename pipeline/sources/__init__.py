"""Reading: from the kinds of sources to DataFrames."""
