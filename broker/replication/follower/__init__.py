"""Following replicas: what they fetch, where they truncate, and the fetchers that do it."""
