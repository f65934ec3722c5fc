"""Studies: the claims of the papers, run again with what was learned here. ``lockstep study NAME`` runs one."""

STUDIES = {
    "imitation": "Concerto's imitation learning: inputs, losses, smoothness, mismatch, loops; beside GCC and others",
}
"""Studies by name, each a module here with a ``main``."""
