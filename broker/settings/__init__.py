"""Every setting of a broker and a topic: what it is called, may be, is now, and how it changes."""
