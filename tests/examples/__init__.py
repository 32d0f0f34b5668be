"""The programs in examples/ do what examples/README.md says."""
