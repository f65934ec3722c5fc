"""The testbed: unmodified programs for video calls and Lockstep over the same link, with the same clip and ruler.

It is Salsify's evaluation in software. A program gets a barcoded clip and calls itself over an emulated link between
two network namespaces. The ruler reads every picture that the program shows. `docs/how-to/testbed.md` describes the
measurements.
"""

COMMANDS = {
    "run": "measure an experiment, or any programs on its links",
    "compare": "measure two programs in one run and compare them",
    "list": "the experiments and programs, and missing requirements on this machine",
    "report": "write the report of a folder again",
}
"""Commands of `lockstep testbed`, by their first word."""
