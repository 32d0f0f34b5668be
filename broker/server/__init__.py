"""Sockets, connections, dispatch, responses."""
