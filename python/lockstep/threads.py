"""How many threads may be asked for."""

MOST_THREADS = 1_024
"""All of them are started at once: a number that is a slip would take the machine with it."""
