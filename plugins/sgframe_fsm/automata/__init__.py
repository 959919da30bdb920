"""Whole automata: written out, minimised, compressed and drawn."""
