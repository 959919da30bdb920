"""Drives OpenAI-compatible servers from outside, by HTTP alone: ours and a peer's alike. Imports nothing of ours."""
