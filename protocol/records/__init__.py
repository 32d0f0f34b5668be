"""Record batches: views over memory, records, codecs, and the checks a leader makes."""
