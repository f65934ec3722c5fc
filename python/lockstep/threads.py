"""Upper limit of thread counts."""

MAX_THREADS = 1_024
"""Largest accepted number of threads. All start at once, so a typing error could exhaust the machine."""
