"""The server edge: listeners, sessions, dispatch, transmission."""
