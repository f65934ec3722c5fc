"""The testbed: unmodified programs for video calls and Lockstep over the same link, with the same clip and ruler.

Salsify's evaluation in software: a barcoded clip goes into a program, the program calls itself across an emulated link
between two network namespaces, and every picture that it shows is read again. `docs/testbed.md` says what is measured.
"""

COMMANDS = {
    "run": "measure an experiment, or any programs over any link",
    "compare": "measure two programs in one run and set them side by side",
    "list": "the experiments and programs, and whether this machine has what they take",
    "report": "draw the report of a folder again",
}
"""What `lockstep testbed` does, by its first word."""
