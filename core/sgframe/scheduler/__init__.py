"""The scheduler process: decides once what every rank computes next. Pure CPU, token ids only, deterministic."""
