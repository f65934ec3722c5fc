"""Studies: the claims of the papers, run again with what was learned here. ``lockstep study NAME`` runs one."""

STUDIES = {
    "ablation": "what each tuned constant of the control path brings, over a fixed evaluation set",
    "bob": "BoB on the profiles of its paper beside its heuristic, Gemini and HRCC; its selector's threshold",
    "concerto": "Concerto: video under GCC; inputs, losses, smoothness, mismatch, loops; beside GCC, Salsify, RL-V",
    "lockstep": "Lockstep's own controller beside all others, on traces that nothing was trained on",
}
"""Studies by name, each a module here with a ``main``."""
