"""Pictures of automata: where states stand, how edges run between them, and the files that come of it.

Knows automata, not expressions.
"""
