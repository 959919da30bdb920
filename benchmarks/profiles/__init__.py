"""Where the time of a step goes: what threads are seen to do while a server works, and what each kernel takes."""


class CannotProfile(Exception):
    """Says what is missing and what to do."""
