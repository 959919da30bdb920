"""From shapes to expressions: objects, arrays, and how they contain each other."""
