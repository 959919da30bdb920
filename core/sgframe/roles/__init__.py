"""What the child processes do, a module each, so that each process imports what its own role needs."""
