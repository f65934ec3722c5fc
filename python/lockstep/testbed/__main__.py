"""`lockstep testbed`: resumable experiments with unmodified programs and Lockstep over one link, and their report."""

import argparse
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from textwrap import shorten
from typing import Any

import polars

from lockstep.module_command import ArgumentParser, print_error, print_text
from lockstep.report import figures_argument
from lockstep.study import Cell, Study, Work, print_table, summary
from lockstep.testbed import COMMANDS, link, machine, measuring, own_namespace, report, session_log
from lockstep.testbed.clips import barcoded
from lockstep.testbed.experiments import ALL, EXPERIMENTS, SELF_TEST, Case, Experiment, label, resolve, traces
from lockstep.testbed.processes import interruptible, pause
from lockstep.testbed.programs import KINDS, Clip, TestbedError, parse

COMMAND = "lockstep testbed"
SELF_TEST_SECONDS = 10.0
START_SECONDS = 6.0
"""Time to start and to evaluate a run, seconds (lab: 2026-11-testbed)."""
ATTEMPTS = 2
"""Largest number of attempts at a run in which the machine was the bottleneck."""
MEASURES = {
    "delay_p50_ms": 0,
    "delay_p95_ms": 0,
    "shown_delay_p95_ms": 0,
    "ssim_db": 1,
    "shown_per_second": 1,
    "freezes": 1,
    "forward_kbps": 0,
    "load_sender": 2,
    "load_receiver": 2,
}
"""Columns of the table with their digits."""
FAILED = {"counted": False, "reasons": ""}


@dataclass(frozen=True, slots=True)
class Budget:
    """Size of an experiment: duration of runs, size of pictures, pictures per second."""

    seconds: float
    size: tuple[int, int]
    rate: float = 30.0


SIZES = {
    "small": Budget(30.0, (640, 360)),
    "full": Budget(120.0, (1280, 720)),
    "paper": Budget(600.0, (1280, 720), 60.0),
}
"""Sizes by budget; the last one is that of Salsify's paper."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help"):
        print(_usage())
        return 0 if words else 2
    commands = {"run": _run, "compare": _compare, "list": _list, "report": _report}
    came: list[signal.Signals] = []
    if words[0] not in commands:
        print(f"{COMMAND}: unknown command {words[0]!r}\n{_usage()}", file=sys.stderr)
        return 2
    try:
        with interruptible() as came:
            return commands[words[0]](words[1:])
    except KeyboardInterrupt:
        print(f"\n{COMMAND}: interrupted; run the same command again to resume", file=sys.stderr)
        return 128 + (came[0] if came else signal.SIGINT)
    except (OSError, ValueError, polars.exceptions.PolarsError) as error:
        print_error(COMMAND, error)
        return 1


def _usage() -> str:
    lines = [f"  {name:8}   {meaning}" for name, meaning in COMMANDS.items()]
    return "\n".join([f"usage: {COMMAND} COMMAND [--help] ...", "", "commands:", *lines])


def _parser(command: str) -> argparse.ArgumentParser:
    parser = ArgumentParser(prog=f"{COMMAND} {command}", description=f"{COMMANDS[command].capitalize()}.")
    parser.add_argument(
        "--output", type=Path, default=None, metavar="DIR", help="folder of the experiment (out/testbed/NAME)"
    )
    parser.add_argument(
        "--budget", choices=SIZES, default="small", help="duration of runs, size and rate of pictures (%(default)s)"
    )
    parser.add_argument("--repeats", type=int, default=3, metavar="COUNT", help="runs of each case (%(default)s)")
    parser.add_argument("--seconds", type=float, default=None, help="duration of a run, instead of the budget's")
    parser.add_argument("--size", default=None, metavar="WxH", help="size of the pictures, instead of the budget's")
    parser.add_argument("--rate", type=float, default=None, help="pictures per second, instead of the budget's")
    parser.add_argument(
        "--clip", default="generated", help="clip to send: `generated`, or any video file (%(default)s)"
    )
    parser.add_argument(
        "--link",
        choices=("auto", "tun", "relay"),
        default="auto",
        help="tun: namespaces and TUN devices; relay: UDP relays, without special rights; auto: tun if possible",
    )
    parser.add_argument(
        "--first", action="store_true", help="run with priority over other programs of this machine; requires root"
    )
    parser.add_argument(
        "--session-log",
        type=Path,
        default=None,
        metavar="DIR",
        help="write a session log of each run over a link to this folder (docs/how-to/sessions.md)",
    )
    parser.add_argument("--fresh", action="store_true", help="discard the results in the folder and start again")
    return parser


def _run(words: Sequence[str]) -> int:
    parser = _parser("run")
    names = ", ".join(EXPERIMENTS)
    parser.add_argument("name", choices=EXPERIMENTS, metavar="NAME", help=f"experiment: {names}")
    parser.add_argument(
        "--program",
        action="append",
        default=None,
        metavar="PROGRAM",
        help="program instead of the experiment's; may be repeated; `all` for all",
    )
    options = parser.parse_args(words)
    options.words = ["run", *words]
    experiment = EXPERIMENTS[options.name]
    programs = tuple(options.program or experiment.programs)
    return _measure(options, options.name, experiment, ALL if programs == ("all",) else programs)


def _compare(words: Sequence[str]) -> int:
    parser = _parser("compare")
    parser.add_argument("programs", nargs=2, metavar="PROGRAM", help="`lockstep`, `chromium:codec=vp9`; see list")
    parser.add_argument(
        "--experiment", choices=EXPERIMENTS, default=None, help="experiment whose links are used (verizon)"
    )
    parser.add_argument("--trace", default=None, help="trace of a custom link, as for `lockstep emulate`")
    parser.add_argument("--delay-ms", type=float, default=None, help="delay of the custom link each way (20)")
    parser.add_argument("--queue-packets", type=int, default=None, help="queue length of the custom link (256)")
    parser.add_argument("--loss", default=None, help="loss rate of the custom link (0)")
    options = parser.parse_args(words)
    options.words = ["compare", *words]
    own = {
        name: value for name in ("delay_ms", "queue_packets", "loss") if (value := getattr(options, name)) is not None
    }
    chosen = options.experiment or "verizon"
    experiment, name = EXPERIMENTS[chosen], f"compare-{chosen}"
    if options.trace is None and own:
        raise TestbedError(f"--{next(iter(own)).replace('_', '-')} requires a custom link: add --trace")
    if options.trace is not None:
        if options.experiment is not None:
            raise TestbedError("--experiment and --trace exclude each other: remove one")
        trace = str(Path(options.trace).resolve()) if Path(options.trace).exists() else options.trace
        case = Case(Path(options.trace).name, trace, **own)
        experiment, name = Experiment(0, "Custom link", (case,)), "compare"
    return _measure(options, name, experiment, tuple(options.programs))


def _list(words: Sequence[str]) -> int:
    ArgumentParser(prog=f"{COMMAND} list", description=f"List {COMMANDS['list']}.").parse_args(words)
    folder = traces()
    print(f"recordings: {folder or 'none; set LOCKSTEP_SHARED to the folder that has traces/mahimahi'}\n")
    print("experiments:")
    for name, experiment in EXPERIMENTS.items():
        where = shorten(resolve(experiment.cases[0])[1], 90, placeholder=" ...")
        print(f"  {name:13} {experiment.number:2}  {experiment.title} ({len(experiment.cases)} links; {where})")
    print("\nprograms:")
    for name, kind in KINDS.items():
        options = ", ".join(f"{option}={value}" for option, value in kind.options.items())
        print(f"  {name:13} {kind.meaning}" + (f"; {name}:{options}" if options else ""))
        for line in _lacking(name):
            print(f"  {'':13} {line}")
    lacking = link.missing("tun")
    own = lacking and not own_namespace.is_inside() and not own_namespace.missing()
    can = "available in a separate user namespace" if own else "available"
    cannot = f"not available: {lacking}; --link relay requires no rights"
    print(f"\nlinks:\n  tun           {cannot if lacking and not own else can}")
    return 0


def _lacking(kind: str) -> Iterator[str]:
    """Lines on what a kind of programs lacks, or else single ones of its programs."""
    module = import_module(KINDS[kind].module)
    if lacking := module.missing():
        yield f"not available: {lacking}"
        return
    for named in filter(lambda named: named.kind == kind, map(parse, ALL)):
        try:
            module.check(named.options)
        except TestbedError as error:
            yield f"{named.name} is not available: {error}"


def _report(words: Sequence[str]) -> int:
    parser = ArgumentParser(prog=f"{COMMAND} report", description=f"{COMMANDS['report'].capitalize()}.")
    parser.add_argument("folder", type=Path, help="folder of an experiment, such as out/testbed/verizon")
    figures_argument(parser)
    options = parser.parse_args(words)
    page = report.write(options.folder, options.figures)
    print(f"report: {page.resolve().as_uri()}")
    return 0


def _measure(options: argparse.Namespace, name: str, experiment: Experiment, programs: tuple[str, ...]) -> int:
    _check(options, programs)
    for tried in experiment.cases:
        link.check(resolve(tried)[0])
    kind = _kind(options)
    if options.first and (reason := machine.raise_priority()):
        raise TestbedError(f"--first: {reason}")
    budget = SIZES[options.budget]
    seconds = options.seconds or budget.seconds
    rate = budget.rate if options.rate is None else options.rate
    size = tuple(map(int, options.size.lower().split("x"))) if options.size else budget.size
    folder = options.output or Path("out/testbed") / name
    clip = barcoded(options.clip, (size[0], size[1]), rate, seconds, folder.parent / "clips")
    study = Study(name, folder, fresh=options.fresh, kind="testbed", is_over=lambda measures: measures["counted"])
    shared = {"seconds": seconds, "size": f"{clip.width}x{clip.height}", "link": kind, "clip": options.clip}
    floors = [
        {"case": SELF_TEST.name, "program": program, "repeat": 1, **shared, "seconds": min(seconds, SELF_TEST_SECONDS)}
        for program in programs
    ]
    cells: list[Cell] = [
        {"case": case.name, "program": program, "repeat": repeat, **shared}
        for repeat in range(1, options.repeats + 1)
        for case in experiment.cases
        for program in programs
    ]
    cases = {case.name: case for case in (*experiment.cases, SELF_TEST)}
    sources = {case.name: resolve(case)[1] for case in experiment.cases}
    for case, source in sources.items():
        print_text(f"{case}: {source}")
    logs = None if options.session_log is None else Logs(options.session_log, name)
    open_cells = study.unfinished([*floors, *cells])
    in_all = sum(cell["seconds"] + START_SECONDS for cell in open_cells)
    study.announce([Work("runs in real time", len(open_cells), in_all / max(len(open_cells), 1))])
    table = study.run([*floors, *cells], lambda cell: _cell(cell, cases[cell["case"]], clip, folder, logs))
    report.describe(folder, name, experiment, sources)
    study.write("runs", table)
    _print_results(table, experiment)
    # If no run succeeded, there is nothing to report.
    if not (table["failed"] != "").all():
        print(f"report: {report.write(folder).resolve().as_uri()}")
    if failed := len(table.filter(polars.col("failed") != "")):
        print(
            f"{COMMAND}: {failed} of {len(table)} runs failed; run the same command again to repeat them",
            file=sys.stderr,
        )
        return 1
    return 0


def _kind(options: argparse.Namespace) -> str:
    """The kind of link to use; without root, the testbed restarts in a user namespace."""
    kind: str = options.link
    lacking = link.missing("tun" if kind == "auto" else kind)
    if lacking is None:
        return "tun" if kind == "auto" else kind
    if not own_namespace.is_inside():
        refused = own_namespace.missing()
        if refused is None:
            print(f"{COMMAND}: not root: the testbed runs in a separate user namespace", file=sys.stderr)
            sys.stdout.flush()
            sys.stderr.flush()
            own_namespace.run_again(options.words)
        lacking = f"{lacking}; {refused}"
    if kind != "auto":
        raise TestbedError(lacking)
    print(f"{COMMAND}: {lacking}; using UDP relays, which have no packet log", file=sys.stderr)
    return "relay"


def _check(options: argparse.Namespace, programs: Sequence[str]) -> None:
    if options.repeats < 1:
        raise TestbedError("--repeats must be at least 1")
    if options.seconds is not None and not 2.0 <= options.seconds <= 3600.0:
        raise TestbedError("--seconds must be from 2 to 3600")
    if options.size is not None and not all(part.isdigit() for part in options.size.lower().split("x", 1)):
        raise TestbedError(f"--size {options.size}: expected WIDTHxHEIGHT, such as 640x360")
    if options.rate is not None and not 0.0 < options.rate <= 240.0:
        raise TestbedError("--rate must be above 0 and at most 240")
    for program in programs:
        named = parse(program)
        module = import_module(KINDS[named.kind].module)
        if lacking := module.missing():
            raise TestbedError(f"{program}: {lacking}")
        try:
            module.check(named.options)
        except TestbedError as error:
            raise TestbedError(f"{program}: {error}") from error


@dataclass(frozen=True, slots=True)
class Logs:
    """Folder of the session logs, and their experiment."""

    folder: Path
    experiment: str

    def of(self, cell: Cell, case: Case) -> session_log.Log:
        """The log of a run."""
        words = {name: str(cell[name]) for name in ("case", "program", "repeat")}
        name = (self.experiment, *(str(value) for value in cell.values()))
        labels = {"access": case.access, "experiment": self.experiment, **words}
        return session_log.Log(self.folder, name, labels)


def _cell(cell: Cell, case: Case, clip: Clip, folder: Path, logs: Logs | None) -> Mapping[str, Any]:
    pause(0.0)
    what = f"{label(cell['program'])} over {case.name}, run {cell['repeat']}"
    specification = None if case is SELF_TEST else resolve(case)[0]
    log = logs.of(cell, case) if logs is not None and case is not SELF_TEST else None
    plan = measuring.Run(cell["program"], specification, cell["link"], clip, cell["seconds"], log)
    place = folder / "runs" / report.run_name(cell)
    for attempt in range(1, ATTEMPTS + 1):
        print(f"{what} ...", file=sys.stderr)
        try:
            measures = measuring.run(plan, place)
        except TestbedError as error:
            # A run that ended together with the testbed has not failed.
            pause(0.0)
            print_error(what, f"failed: {error}")
            return {**FAILED, "failed": str(error), "attempts": attempt}
        ssim = f"{measures['ssim_db']:.1f} dB" if measures["ssim_db"] is not None else "no SSIM"
        counted = "" if measures["counted"] else f"; NOT COUNTED: {measures['reasons']}"
        delays = f"{measures['delay_p50_ms']:.0f}/{measures['delay_p95_ms']:.0f} ms (p50/p95)"
        print(f"{what}: {delays}, {ssim}, {measures['shown_per_second']:.1f} shown a second{counted}", file=sys.stderr)
        if measures["counted"]:
            break
    return {**measures, "attempts": attempt}


def _print_results(table: polars.DataFrame, experiment: Experiment) -> None:
    """Prints means over the counted runs, and the paper's figures."""
    kept = table.filter(polars.col("counted") & (polars.col("case") != SELF_TEST.name))
    if not kept.is_empty():
        by = ["case", "program"]
        print_table(summary(kept, by, list(MEASURES), over="repeat"), by, MEASURES, {})
    left_out = table.filter(~polars.col("counted"))
    for row in left_out.iter_rows(named=True):
        why = row["failed"] or row["reasons"]
        print_text(f"not counted: {row['case']}, {row['program']}, run {row['repeat']}: {why}", sys.stdout)
    for row in table.filter(polars.col("case") == SELF_TEST.name).iter_rows(named=True):
        if row["failed"]:
            continue
        print_text(f"the ruler with {row['program']}: {report.ruler_error(row)}", sys.stdout)
    for printed in experiment.printed:
        print(f"the paper: {report.describe_printed(printed)}")


if __name__ == "__main__":
    sys.exit(main())
