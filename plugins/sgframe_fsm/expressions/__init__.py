"""Expressions over bytes: what they are made of, what follows a byte, which of them match nothing."""
