"""The worker process: a loop around one executor."""
