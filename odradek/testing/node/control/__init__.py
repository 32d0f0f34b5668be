"""What a test may do to a broker that was started for tests, over HTTP on 127.0.0.1.

Imported for `odradek start --ephemeral --control` only.
"""
