"""Delegation tokens: who may create, renew, expire and see them, and their credentials."""
