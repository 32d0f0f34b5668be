"""Test doubles that users may import: a file system in memory that crashes and fills up."""
