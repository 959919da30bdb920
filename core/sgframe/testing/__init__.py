"""Contract tests and doubles for authors of parts. Import what you need; nothing is registered with pytest."""
