"""The contracts between the core and its plugins: one ABC per seam, no torch anywhere."""
