"""Hash the logs of several hundred simulated calls, so that a refactoring can show that it changes none of them.

    make golden-record          # at the commit to compare with: writes out/golden/baseline.json
    make golden                 # afterwards: lists every call whose logs differ, exit status 1 if any does

A call that is meant to gain a column or a JSON key keeps its hash with `--ignore NAME`.
"""

import argparse
import concurrent.futures
import csv
import hashlib
import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

CONTROLLERS = (
    "lockstep sprout salsify copa gcc nada scream bob-heuristic fixed:500kbps concerto rlv bob hrcc gemini hindsight"
).split()
RATE_CONTROLLERS = ("lockstep", "sprout", "salsify", "gcc", "nada", "scream")

# One row a condition of modelled calls: name, options.
CONDITIONS = {
    "cellular": "--trace cellular:mean=2mbps,seed=3",
    "loss5": "--trace constant:2mbps --loss 5% --seed 2",
    "loss10": "--trace constant:2mbps --loss 10% --seed 3",
    "bursts": "--trace cellular:mean=4mbps,seed=5 --burst-loss 1%,30%",
    "jitter": "--trace constant:1500kbps --jitter-ms 15",
    "short-queue": "--trace constant:2mbps --queue-packets 5",
    "long-path": "--trace cellular:mean=3mbps,seed=7 --delay-ms 150",
    "narrow": "--trace constant:60kbps --audio",
    "sound": "--trace cellular:mean=1mbps,seed=9 --audio",
    "outage": "--trace constant:1mbps,outage=4s+2s",
    "on-off": "--trace onoff:3mbps,on=1s,off=0.3s,loss=100%,seed=4",
    "two-way": "--trace cellular:mean=2mbps,seed=11 --reverse cellular:mean=1mbps,seed=12 --two-way",
    "slow-feedback": "--trace constant:1mbps --reverse constant:48kbps",
    "codel": "--trace cellular:mean=2mbps,seed=13 --queue codel",
    "fast": "--trace constant:40mbps --clip generated:1280x720@30",
    "slow-large": "--trace constant:200kbps --clip generated:1280x720@30",
}
# Latency modes, a cap, feedback for each fragment: of the controllers that have them.
EXTRA = {
    "low": ("--trace cellular:mean=2mbps,seed=3 --latency low", ("lockstep", "sprout")),
    "quality": ("--trace cellular:mean=2mbps,seed=3 --latency quality", ("lockstep", "sprout")),
    "cap": ("--trace constant:5mbps --max-bitrate 700kbps", RATE_CONTROLLERS),
    "no-cap": ("--trace constant:9mbps --max-bitrate none", RATE_CONTROLLERS),
    "each-fragment": ("--trace cellular:mean=2mbps,seed=3 --feedback-ms 0", RATE_CONTROLLERS),
    "menu": ("--trace cellular:mean=2mbps,seed=3 --menu serial", ("salsify", "lockstep")),
    "no-grace": ("--trace cellular:mean=2mbps,seed=3 --grace-period none", ("salsify",)),
}
PIXELS = "--clip generated:160x96@15 --seconds 5"
SCENARIOS = ("variable-capacity-single", "long-tcp-cubic", "priorities", "congested-feedback")


def calls() -> dict[str, list[str]]:
    """Every call by name: the arguments of the command."""
    found = {}
    for controller in CONTROLLERS:
        for codec in ("functional", "conventional"):
            for name, options in CONDITIONS.items():
                found[f"modelled/{controller}/{codec}/{name}"] = simulate(controller, codec, options + " --modelled --seconds 12")
        for name in ("cellular", "loss5"):
            found[f"pixels/{controller}/functional/{name}"] = simulate(controller, "functional", f"{CONDITIONS[name]} {PIXELS}")
    for controller in ("lockstep", "gcc"):
        for name in ("jitter", "short-queue", "narrow", "outage", "two-way"):
            found[f"pixels/{controller}/functional/{name}"] = simulate(controller, "functional", f"{CONDITIONS[name]} {PIXELS}")
        found[f"pixels/{controller}/conventional/loss5"] = simulate(controller, "conventional", f"{CONDITIONS['loss5']} {PIXELS}")
    for name, (options, controllers) in EXTRA.items():
        for controller in controllers:
            found[f"modelled/{controller}/functional/{name}"] = simulate(controller, "functional", options + " --modelled --seconds 12")
    for controller in RATE_CONTROLLERS:
        for scenario in SCENARIOS:
            found[f"scenario/{controller}/{scenario}"] = ["scenario", "run", scenario, "--controller", controller]
    return found


def simulate(controller: str, codec: str, options: str) -> list[str]:
    return ["simulate", "--controller", controller, "--codec", codec, *options.split()]


def without(value: object, ignored: set[str]) -> object:
    if isinstance(value, dict):
        return {key: without(inner, ignored) for key, inner in value.items() if key not in ignored}
    if isinstance(value, list):
        return [without(inner, ignored) for inner in value]
    return value


def run(command: str, arguments: list[str], ignored: set[str]) -> str:
    """Runs one call: the hash of its report and its frames, or the last line of its error."""
    with tempfile.TemporaryDirectory() as folder:
        report, frames = Path(folder, "call.json"), Path(folder, "frames.csv")
        outputs = ["--json", str(report)] + (["--frames", str(frames)] if arguments[0] == "simulate" else [])
        ended = subprocess.run([command, *arguments, *outputs], capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            return "failed: " + (ended.stderr.strip().splitlines() or ["no message"])[-1]
        digest = hashlib.sha256(json.dumps(without(json.loads(report.read_text()), ignored), sort_keys=True).encode())
        if frames.exists():
            rows = csv.DictReader(io.StringIO(frames.read_text()))
            for row in rows:
                digest.update(json.dumps({key: row[key] for key in row if key not in ignored}).encode())
        return digest.hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", default="target/release/lockstep", help="the command to run")
    parser.add_argument("--baseline", type=Path, default=Path("out/golden/baseline.json"), help="hashes to compare with")
    parser.add_argument("--record", action="store_true", help="write the baseline instead of comparing with it")
    parser.add_argument("--ignore", action="append", default=[], metavar="NAME", help="a column or JSON key to leave out")
    parser.add_argument("--only", default="", metavar="TEXT", help="only calls whose name contains this")
    arguments = parser.parse_args()
    chosen = {name: words for name, words in calls().items() if arguments.only in name}
    ignored = set(arguments.ignore)
    hashes = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(lambda words: run(arguments.command, words, ignored), chosen.values())
        for done, (name, digest) in enumerate(zip(chosen, results, strict=True), 1):
            hashes[name] = digest
            if sys.stderr.isatty():
                print(f"\r{done} of {len(chosen)} calls", end="\n" if done == len(chosen) else "", file=sys.stderr, flush=True)
    if arguments.record:
        failed = [f"{name}: {digest}" for name, digest in hashes.items() if digest.startswith("failed")]
        print("\n".join(failed), file=sys.stderr, end="\n" if failed else "")
        arguments.baseline.parent.mkdir(parents=True, exist_ok=True)
        arguments.baseline.write_text(json.dumps(hashes, indent=1) + "\n")
        print(f"recorded {len(hashes)} calls in {arguments.baseline}, {len(failed)} of them refused")
        return 0
    if not arguments.baseline.exists():
        print(f"golden: {arguments.baseline} does not exist: run `make golden-record` at the commit to compare with", file=sys.stderr)
        return 2
    baseline = json.loads(arguments.baseline.read_text())
    different = [name for name, digest in hashes.items() if baseline.get(name) != digest]
    print("\n".join(different), end="\n" if different else "")
    print(f"{len(hashes) - len(different)} of {len(hashes)} calls are byte-identical to {arguments.baseline}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
