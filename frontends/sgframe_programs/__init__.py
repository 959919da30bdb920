"""Programs on the server: live states that grow, fork and are scored, each with its tokens and its lease."""
