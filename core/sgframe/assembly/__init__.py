"""From plugins and settings to the parts of one engine: offering, loading, choosing. pluggy is met here and nowhere else."""
