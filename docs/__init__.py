"""The documentation site: pages in Markdown, and the code that generates the others."""
