"""The jobs of `odradek pipeline`: pipelines and mirrors."""
