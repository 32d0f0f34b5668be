"""The figures: one row measures one thing of a broker and returns numbers."""
