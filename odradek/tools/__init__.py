"""Commands: one module or package each."""
