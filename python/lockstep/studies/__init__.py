"""Studies: repetitions of the papers' experiments with the models of this package. ``lockstep study NAME`` runs one."""

STUDIES = {
    "ablation": "effect of each tuned constant of the control path on a fixed evaluation set",
    "bob": "BoB, its heuristic, Gemini and HRCC on profiles of BoB's paper; threshold of BoB's selector",
    "concerto": "Concerto: video with GCC; inputs, losses, smoothness, mismatch, loops; GCC, Salsify, RL-V",
    "lockstep": "Lockstep's own controller and all others on test traces",
    "papers": "every result that Salsify, Concerto and BoB print, and the same one measured here",
}
"""Names and descriptions of the studies; each is a module here with a ``main``."""
