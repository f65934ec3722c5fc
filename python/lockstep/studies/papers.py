"""Every result that the three papers print, next to the same one measured here.

Runs in parts, each of which resumes after an interruption:

- `links`: Salsify as published, its ablation, Lockstep and a model of WebRTC over the links of Salsify's paper
- `concerto`: Concerto's observation of video and GCC, its learned controller, and variants of its training
- `bob`: BoB, its heuristic, Gemini and HRCC on profiles; thresholds of its selector

All but the first are studies of their own, which write to subfolders. Afterwards the command compares their tables with
the printed results. It writes `papers.parquet` with one row per result, and the book `papers.html`. Recordings of the
links are used if `LOCKSTEP_SHARED` names a folder with them; otherwise links are generated. `--testbed` adds Chromium.
"""

import argparse
import math
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import polars

from lockstep.comparison_charts import call_frames
from lockstep.content_hash import content_hash, program_hash
from lockstep.module_command import ArgumentParser
from lockstep.simulation import simulate
from lockstep.studies import bob, concerto
from lockstep.studies.papers_book import FRAMES, write_book
from lockstep.studies.printed_results import CHROMIUM, PUBLISHED, TODAY, Results
from lockstep.study import TRIED_SECONDS, Cell, Measures, Study, Work, add_arguments, timed
from lockstep.testbed.experiments import ATT, EXPERIMENTS, INTERMITTENT, UMTS, VERIZON, Case, resolve

LINKS: Mapping[str, Case] = {
    "AT&T LTE": ATT,
    "Verizon LTE": VERIZON,
    "T-Mobile UMTS": UMTS,
    "Lossy Link": INTERMITTENT,
    "ramp": EXPERIMENTS["ramp"].cases[0],
}
"""Links of Salsify's paper, by the beginning of the printed conditions."""
SYSTEMS: Mapping[str, Mapping[str, Any]] = {
    "Salsify-1c": {"as_published": "salsify", "menu": "serial"},
    "Salsify-2c": {"as_published": "salsify", "menu": "parallel"},
    "WebRTC": {"controller": "gcc", "codec": "conventional"},
    "Lockstep": {},
}
"""Options of each system's calls over these links. WebRTC is GCC with a conventional codec."""
LOCKSTEP = "Lockstep"
ABLATIONS: Mapping[str, Mapping[str, Any]] = {
    "Salsify, no grace period": {"as_published": "salsify", "grace_period": "none"},
    "Salsify, conventional codec": {"as_published": "salsify-frame-target"},
    "Salsify, conventional codec and transport": {"as_published": "salsify-second-target"},
}
"""Options of the calls of Salsify's ablation."""
ABLATED_LINK = "Verizon LTE"
"""Link of the ablation."""
PUBLISHED_CODING_MS = 36.0
"""Time of Salsify's published encoder for two candidates of 1280x720 (lab: 2026-11-papers-salsify), milliseconds."""
CHROMIUM_PROGRAMS = {"WebRTC": "chromium", "WebRTC (VP9-SVC)": "chromium:codec=vp9,layers=L1T3"}
"""Programs of the testbed by the paper's names. Chromium codes three temporal layers, and one spatial layer."""
RECOVERY = 23.66
"""Start of the recovery on the link `ramp`, seconds."""
WATCHED_SECONDS = 8.0
"""Time after it in which Salsify's paper counts the displayed frames."""


@dataclass(frozen=True, slots=True)
class Size:
    """Calls of the part `links` in a budget, and the number of seeds of all parts."""

    clip: str
    seconds: float
    seeds: int


SIZES: Mapping[str, Size] = {
    "small": Size("generated:640x360@30", 60.0, 3),
    "full": Size("generated:1280x720@30", 120.0, 5),
    "paper": Size("generated:1280x720@60", 600.0, 5),
}
"""By budget. The last one is that of Salsify's paper, with the five runs of BoB's."""


def link(name: str, seed: int, folder: Path) -> tuple[str, str | None, dict[str, Any]]:
    """Forward and reverse trace of a link, and its other options. Another seed starts elsewhere in a recording.

    A generated link gets the seed itself.
    """
    specification, _ = resolve(LINKS[name])
    options = {"delay_ms": specification.delay_ms, "queue_packets": specification.queue_packets}
    traces = [
        trace and (rotated(Path(trace), seed, folder) if Path(trace).exists() else _reseeded(trace, seed))
        for trace in (specification.trace, specification.reverse)
    ]
    return str(traces[0]), traces[1], options


def _reseeded(trace: str, seed: int) -> str:
    return re.sub(r"seed=(\d+)", lambda found: f"seed={int(found[1]) + 1000 * (seed - 1)}", trace)


def rotated(recording: Path, seed: int, folder: Path) -> str:
    """The recording from a later start on: seed 1 from the beginning, others equally far apart."""
    if seed == 1:
        return str(recording)
    times = [int(line) for line in recording.read_text().split()]
    period = times[-1]
    start = period * (seed - 1) // 8 * 3 % period
    path = folder / f"{recording.name}-{seed}"
    moved = sorted((moment - start) % period or period for moment in times)
    path.write_text("".join(f"{moment}\n" for moment in moved))
    return str(path)


def link_cells(options: argparse.Namespace, folder: Path) -> list[Cell]:
    """The calls of the part `links`."""
    cells: list[Cell] = []
    for name in LINKS:
        for seed in range(1, options.seeds + 1):
            trace, reverse, _ = link(name, seed, folder)
            known = [content_hash(Path(each)) if Path(each).exists() else each for each in (trace, reverse) if each]
            cells += [
                {
                    "link": name,
                    "system": system,
                    "seed": seed,
                    "clip": options.size.clip,
                    "options": {**SYSTEMS, **ABLATIONS}[system],
                    "seconds": options.size.seconds,
                    "traces": known,
                    "program": program_hash(),
                }
                for system in (*SYSTEMS, *(ABLATIONS if name == ABLATED_LINK else ()))
            ]
    return cells


def link_call(cell: Cell, folder: Path, seconds: float | None = None) -> Measures:
    """The measures of one call, which lasts ``seconds`` if given."""
    trace, reverse, options = link(cell["link"], cell["seed"], folder)
    system = {**SYSTEMS, **ABLATIONS}[cell["system"]]
    size = re.match(r"generated:(\d+)x(\d+)", cell["clip"])
    if size and "as_published" in system:
        options["encode_ms"] = PUBLISHED_CODING_MS * int(size[1]) * int(size[2]) / (1280 * 720)
    call = simulate(
        trace,
        reverse=reverse,
        clip=cell["clip"],
        seconds=seconds or cell["seconds"],
        seed=cell["seed"],
        **options,
        **system,
    )
    if cell["seed"] == 1 and seconds is None:
        name = cell["system"]
        frames = folder / FRAMES / cell["link"]
        frames.mkdir(parents=True, exist_ok=True)
        call_frames(name, call).write_parquet(frames / f"{name}.parquet")
    scores = call.scores
    displayed = call.frames["displayed_at"]
    return {
        "ssim_p25_db": scores["ssim_db"]["p25"],
        "ssim_db": scores["ssim_db"]["mean"],
        "delay_mean_ms": scores["video_delay_ms"]["mean"],
        "delay_p95_ms": scores["video_delay_ms"]["p95"],
        "shown_delay_p50_ms": scores["displayed_delay_ms"]["p50"],
        "shown_delay_p95_ms": scores["displayed_delay_ms"]["p95"],
        "throughput_mbps": scores["throughput_bps"] / 1e6,
        "states": scores.get("states"),
        "choices": scores.get("choices"),
        "recovering": int(((displayed >= RECOVERY) & (displayed < RECOVERY + WATCHED_SECONDS)).sum()),
        "recovered_s": recovered_after([float(moment) for moment in displayed if math.isfinite(moment)]),
    }


def recovered_after(displayed: Sequence[float]) -> float:
    """Seconds after the recovery's start until the first second with at least ten displayed frames."""
    later = sorted(moment for moment in displayed if moment >= RECOVERY)
    for first, tenth in zip(later, later[9:], strict=False):
        if tenth - first < 1.0:
            return first - RECOVERY
    return math.nan


DELAY_AND_QUALITY = {
    "SSIM p25": "ssim_p25_db",
    "SSIM mean": "ssim_db",
    "video delay mean": "delay_mean_ms",
    "video delay p95": "delay_p95_ms",
}
"""Measures by the beginning of the printed metrics of the draft's figure 10(e)."""
DISPLAYED = {
    "displayed delay p50": "shown_delay_p50_ms",
    "displayed delay p95": "shown_delay_p95_ms",
    "SSIM mean of displayed": "ssim_db",
}
"""The same for the analysis files of Salsify's testbed."""


def add_links(results: Results, table: polars.DataFrame) -> None:
    """Adds the values of the part `links` to the results of Salsify's paper."""
    for row in table.iter_rows(named=True):
        system, name, seed = row["system"], row["link"], row["seed"]
        mode = TODAY if system == LOCKSTEP else PUBLISHED
        for printed in ("Salsify-1c", "Salsify-2c") if system == LOCKSTEP else (system,):
            for metric, measure in DISPLAYED.items():
                results.add(mode, seed, row[measure], exact=printed, where="analysis", metric=metric, condition=name)
            for metric, measure in DELAY_AND_QUALITY.items():
                results.add(mode, seed, row[measure], exact=printed, where="Fig. 10(e)", metric=metric, condition=name)
                if printed == "Salsify-1c":
                    results.add(mode, seed, row[measure], exact=printed, where="Fig. 2", metric=metric, condition=name)
        if name == "ramp" and system == "WebRTC":
            results.add(mode, seed, row["recovering"], metric="frames displayed in the eight seconds")
            results.add(mode, seed, row["recovered_s"], metric="seconds after recovery in which WebRTC")
        if name == "AT&T LTE" and system == "Salsify-2c" and row["states"] and row["choices"]:
            _add_states(results, seed, row)
    for seed, group in table.filter(polars.col("link") != "ramp").group_by("seed"):
        _add_comparisons(results, int(seed[0]), group)


def _add_states(results: Results, seed: int, row: Mapping[str, Any]) -> None:
    where = {"paper": "Salsify (NSDI 2018)", "where": "Sec. 5.2, Exp. 1"}
    for end in ("sender", "receiver"):
        results.add(PUBLISHED, seed, row["states"][end], metric=f"states kept by the {end}", **where)
    for beginning, choice in (
        ("opportunities at which the higher", "better"),
        ("opportunities at which the lower", "worse"),
        ("opportunities at which no", "none"),
    ):
        results.add(PUBLISHED, seed, 100.0 * row["choices"][choice], metric=beginning, **where)


def _add_comparisons(results: Results, seed: int, table: polars.DataFrame) -> None:
    """Ratios and differences to Salsify with one core, of one seed."""
    of = {(row["link"], row["system"]): row for row in table.iter_rows(named=True)}
    for mode, salsify in ((PUBLISHED, "Salsify-1c"), (TODAY, LOCKSTEP)):
        ratios, gains = [], []
        for name in sorted(set(table["link"])):
            own, other = of[name, salsify], of[name, "WebRTC"]
            ratios.append(other["delay_p95_ms"] / own["delay_p95_ms"])
            gains.append(own["ssim_db"] - other["ssim_db"])
            if name == "AT&T LTE":
                over = {"where": "Fig. 2", "exact": "WebRTC"}
                results.add(mode, seed, ratios[-1], metric="video delay p95 over", **over)
                results.add(mode, seed, -gains[-1], metric="SSIM less", **over)
        results.add(mode, seed, fmean(ratios), where="Abstract", metric="video delay, five")
        results.add(mode, seed, fmean(gains), where="Abstract", metric="SSIM, Salsify over")


def add_testbed(results: Results, folder: Path) -> None:
    """Adds the runs of Chromium in a folder of `lockstep testbed run`.

    Raises:
        ValueError: If the folder has no runs.

    """
    try:
        runs = polars.read_parquet(folder / "runs.parquet").filter("counted")
    except (OSError, polars.exceptions.PolarsError) as error:
        raise ValueError(f"--testbed {folder}: no runs of lockstep testbed in it: {error}") from error
    conditions = {"intermittent": "Lossy Link"}
    columns = {"SSIM p25": "ssim_p25_db", "SSIM mean": "ssim_db", "video delay mean": "delay_mean_ms"}
    for row in runs.iter_rows(named=True):
        for system, program in CHROMIUM_PROGRAMS.items():
            for metric, column in {**columns, "video delay p95": "delay_p95_ms"}.items():
                if row["program"] == program:
                    condition = conditions.get(row["case"], row["case"])
                    names = {"where": "Fig. 10(e)", "metric": metric, "condition": condition}
                    results.add(CHROMIUM, row["repeat"], row[column], exact=system, **names)


CONCERTO = {"paper": "Concerto (MobiCom 2019)"}
GCC_NOW, GCC_THEN = "current GCC", "GCC of 2018"
"""Controls of the observation."""
DIP_SECONDS = 20.0
"""Length of the dips of the capacity, seconds."""
DIPS = {
    "example, M1": ["steps:1mbps@40s/200kbps@20s/1mbps@180s", "steps:2mbps@40s/400kbps@20s/2mbps@180s"],
    "example, M2": ["steps:1mbps@40s/400kbps@20s/1mbps@180s", "steps:2mbps@40s/800kbps@20s/2mbps@180s"],
}
"""Links of `lockstep sources --links returning` by the paper's examples: the deeper dip is M1."""
NETWORKS = {"3G": "3G", "4G": "4G", "Wi-Fi": "WiFi"}
"""Names of the access networks here and in Concerto's paper."""


def by_seed(table: polars.DataFrame, *columns: str) -> Iterator[tuple[int, dict[Any, dict[str, Any]]]]:
    """For each seed, the means of all measures by the values of ``columns`` (a tuple if there are several)."""
    measures = [name for name, kind in table.schema.items() if kind.is_numeric() and name not in (*columns, "seed")]
    for (seed,), group in table.group_by("seed", maintain_order=True):
        means = group.group_by(columns, maintain_order=True).agg(polars.col(measures).mean())
        keys = [key if len(columns) > 1 else key[0] for key in means.select(columns).iter_rows()]
        yield int(seed), dict(zip(keys, means.iter_rows(named=True), strict=True))


def add_concerto(results: Results, folder: Path) -> None:
    """Adds the tables of `lockstep study concerto`; parts that did not run are skipped."""
    readers: Mapping[str, Callable[[Results, polars.DataFrame], None]] = {
        "observation": _add_observation,
        "observation-short-queue": _add_short_queue,
        "observation-recovery": _add_recovery,
        "observation-codec": _add_codec,
        "controllers": _add_controllers,
        "inputs": _add_inputs,
        "losses": _add_losses,
        "smoothness": _add_smoothness,
        "mismatch": _add_mismatch,
    }
    for part, reader in readers.items():
        if (folder / f"{part}.parquet").exists():
            reader(results, polars.read_parquet(folder / f"{part}.parquet"))
    swept = [folder / f"{part}.parquet" for part in ("beta", "loops", "epochs")]
    if all(path.exists() for path in swept):
        _add_variation(results, [polars.read_parquet(path) for path in swept])


def _add_observation(results: Results, table: polars.DataFrame) -> None:
    """Video and full throttle with GCC of 2018: throughput and delay."""
    names = {**CONCERTO, "where": "Sec. 2.3, Fig. 7"}
    for seed, of in by_seed(table, "control", "source"):
        video, full = (of[GCC_THEN, source] for source in ("video", "full throttle"))
        results.add(PUBLISHED, seed, -video["against_full"], metric="throughput of video below", **names)
        results.add(PUBLISHED, seed, video["delay_ms"], metric="delay", exact="video telephony", **names)
        results.add(PUBLISHED, seed, full["delay_ms"], metric="delay", exact="GCC alone", **names)
        results.add(PUBLISHED, seed, video["reduction_ratio"], metric="extent of bit-rate reduction", **CONCERTO)
        now = of[GCC_NOW, "video"]
        results.add(TODAY, seed, -now["against_full"], metric="throughput of video below", **names)


def _add_short_queue(results: Results, table: polars.DataFrame) -> None:
    names = {**CONCERTO, "where": "Sec. 2.3, Fig. 7", "metric": "packet loss"}
    for seed, of in by_seed(table, "control", "source"):
        for source, system in (("video", "video telephony"), ("full throttle", "GCC alone")):
            results.add(PUBLISHED, seed, of[GCC_THEN, source]["loss"], exact=system, **names)


def _add_recovery(results: Results, table: polars.DataFrame) -> None:
    """Reduction and recovery over links whose capacity falls to a fifth (M1) or to two fifths (M2) for 20 s."""
    systems = {"video telephony": "video", "GCC alone": "full throttle"}
    example = {**CONCERTO, "where": "Sec. 2.3, Fig. 8"}
    for seed, of in by_seed(table, "control", "source"):
        rows = {system: of[GCC_THEN, source] for system, source in systems.items()}
        for system, row in rows.items():
            results.add(PUBLISHED, seed, row["back_s"], exact=system, metric="recovery time", **example)
        video = rows["video telephony"]
        results.add(PUBLISHED, seed, video["back_ratio"], metric="recovery time, video over", **CONCERTO)
        results.add(PUBLISHED, seed, video["back_s"] / DIP_SECONDS, metric="recovery takes of the", **CONCERTO)
        results.add(PUBLISHED, seed, video["updates_share"], metric="GCC updates of video", **CONCERTO)
    for condition, links in DIPS.items():
        for seed, of in by_seed(table.filter(polars.col("trace").is_in(links)), "control", "source"):
            for system, source in systems.items():
                names = {"metric": "reduction of the bit rate", "condition": condition, **example}
                results.add(PUBLISHED, seed, of[GCC_THEN, source]["reduction"], exact=system, **names)


def _add_codec(results: Results, table: polars.DataFrame) -> None:
    """Deviations of a conventional codec from a target of 1 Mb/s."""
    for seed, of in by_seed(table, "target_kbps"):
        row = of[1_000]
        results.add(PUBLISHED, seed, row["peak"], metric="encoded rate over target", **CONCERTO)
        results.add(PUBLISHED, seed, row["approach_s"], metric="time that a codec needs", **CONCERTO)


def _add_controllers(results: Results, table: polars.DataFrame) -> None:
    """Gaps of QoE and throughput to the other systems."""
    # Controllers without training have one seed, which all seeds share.
    is_trained = polars.col("controller") == "concerto"
    seeds = table.filter(is_trained).select("seed").unique()
    shared = table.filter(~is_trained).drop("seed").join(seeds, how="cross")
    table = polars.concat([table.filter(is_trained), shared], how="diagonal")
    rivals = {"WebRTC": "gcc, conventional codec", "Salsify": "gcc, functional codec", "RL-V": "rlv"}
    for seed, of in by_seed(table, "controller", "codec", "network"):
        own, *others = ([of[*concerto.SYSTEMS[name], at] for at in NETWORKS] for name in ("concerto", *rivals.values()))
        for place, printed in enumerate(NETWORKS.values()):
            best = max(other[place]["qoe_p"] for other in others)
            gap = 100.0 * (1.0 - best / own[place]["qoe_p"])
            results.add(PUBLISHED, seed, gap, metric="QoE gap of the closest", condition=printed, **CONCERTO)
        for printed, other in zip(rivals, others, strict=True):
            means = [fmean(row["throughput_kbps"] for row in rows) for rows in (own, other)]
            gain = 100.0 * (means[0] / means[1] - 1.0)
            results.add(PUBLISHED, seed, gain, exact=f"Concerto over {printed}", **CONCERTO)


def _add_inputs(results: Results, table: polars.DataFrame) -> None:
    _add_normalised(results, table, {"2 (transport)": "2-state", "4 (both layers)": "4-state"})


def _add_losses(results: Results, table: polars.DataFrame) -> None:
    _add_normalised(results, table, {name: name[:2] for name in concerto.VARIANTS["losses"]})


def _add_normalised(results: Results, table: polars.DataFrame, variants: Mapping[str, str]) -> None:
    """QoE_p of variants relative to the last one."""
    for seed, of in by_seed(table, "variant"):
        known = {printed: of[name]["qoe_p"] for name, printed in variants.items()}
        reference = list(known.values())[-1]
        for printed, value in known.items():
            results.add(PUBLISHED, seed, value / reference, where="Table 3", exact=f"Concerto, {printed}")
        others = list(known.values())[:-1]
        if len(others) == 1:
            below = 100.0 * (1.0 - others[0] / reference)
            results.add(PUBLISHED, seed, below, metric="QoE of the 2-state design", **CONCERTO)
        else:
            gain = 100.0 * (reference / max(others) - 1.0)
            results.add(PUBLISHED, seed, gain, metric="gain of l4 over", **CONCERTO)


def _add_smoothness(results: Results, table: polars.DataFrame) -> None:
    for seed, of in by_seed(table, "variant"):
        changes = {name.partition(" ")[0]: row["smoothness_kbps"] / 1e3 for name, row in of.items()}
        for name, value in changes.items():
            results.add(PUBLISHED, seed, value, metric="smoothness eta", exact=f"Concerto, {name} regulariser")
        gain = 100.0 * (changes["without"] / changes["with"] - 1.0)
        results.add(PUBLISHED, seed, gain, metric="improvement of eta", **CONCERTO)


def _add_mismatch(results: Results, table: polars.DataFrame) -> None:
    """QoE_p of a model on another network than its own, relative to that network's model."""
    for seed, of in by_seed(table, "variant", "network"):
        shares = {
            (trained, tested): of[trained, tested]["qoe_p"] / of[tested, tested]["qoe_p"]
            for trained in NETWORKS
            for tested in NETWORKS
        }
        for (trained, tested), share in shares.items():
            condition = f"row {NETWORKS[trained]}, column {NETWORKS[tested]}"
            results.add(PUBLISHED, seed, share, where="Table 4", condition=condition, **CONCERTO)
        losses = {pair: 100.0 * (1.0 - share) for pair, share in shares.items() if pair[0] != pair[1]}
        results.add(PUBLISHED, seed, fmean(losses.values()), metric="model better on the network", **CONCERTO)
        for network in ("3G", "4G"):
            metric = f"loss of the WiFi-trained model on {network}"
            results.add(PUBLISHED, seed, losses["Wi-Fi", network], metric=metric, **CONCERTO)


def _add_variation(results: Results, tables: Sequence[polars.DataFrame]) -> None:
    """Largest variation of QoE_p over the values of a parameter of the training."""
    variations: dict[int, list[float]] = {}
    for table in tables:
        for seed, of in by_seed(table, "variant"):
            values = [row["qoe_p"] for row in of.values()]
            variations.setdefault(seed, []).append(100.0 * (1.0 - min(values) / max(values)))
    for seed, found in variations.items():
        results.add(PUBLISHED, seed, max(found), metric="variation of QoE over beta", **CONCERTO)


BOB = {"paper": "BoB (IEEE TMM 2022)"}
PROFILES = {
    "cascade_profile": "Cascade",
    "lte_profile": "LTE",
    "twitch_profile": "Twitch",
    "FCCamazone": "FCC Amazon",
    "Synthtic": "Synthetic",
}
"""Names of the profiles in their repository and in BoB's paper."""
ESTIMATORS = {
    PUBLISHED: {"bob-printed": "BoB", "gemini": "Gemini", "hrcc": "HRCC", "bob-heuristic-printed": "Heuristic"},
    TODAY: {"bob": "BoB", "gemini": "Gemini", "hrcc": "HRCC", "bob-heuristic": "Heuristic"},
}
"""The paper's names of the estimators by mode: those trained as printed, and the shipped ones."""
SYSTEMS_OF_BOB = tuple(ESTIMATORS[TODAY].values())
TABLE_3 = {
    "prediction accuracy": "accuracy",
    "prediction error sMAPE": "smape",
    "receiving rate score": "rate_score",
    "delay score": "delay_score",
    "loss score": "loss_score",
    "network score": "network_bob",
    "video score": "vmaf",
    "total score": "total_bob",
}
"""Columns of `lockstep study bob` by the metrics of BoB's Table III."""


def add_bob(results: Results, folder: Path) -> None:
    """Adds the tables of `lockstep study bob`, with the conventional codec; parts that did not run are skipped."""
    if (folder / "estimators.parquet").exists():
        table = polars.read_parquet(folder / "estimators.parquet").filter(polars.col("codec") == "conventional")
        table = table.with_columns(polars.col("profile").str.replace(", generated", "", literal=True))
        for seed, of in by_seed(table, "estimator", "profile"):
            for mode, names in ESTIMATORS.items():
                of_mode = {(names[name], at): row for (name, at), row in of.items() if name in names}
                _add_estimators(results, mode, seed, of_mode)
    if (folder / "thresholds.parquet").exists():
        table = polars.read_parquet(folder / "thresholds.parquet").filter(polars.col("codec") == "conventional")
        for seed, of_threshold in by_seed(table, "threshold"):
            for threshold, row in of_threshold.items():
                names = {**BOB, "where": "Table I", "condition": f"threshold {threshold} %"}
                results.add(PUBLISHED, seed, row["smape"], metric="sMAPE", **names)
                results.add(PUBLISHED, seed, row.get("total_bob"), metric="total score", **names)
    if (folder / "online.parquet").exists():
        for seed, of_estimator in by_seed(polars.read_parquet(folder / "online.parquet"), "estimator"):
            for mode, names in ESTIMATORS.items():
                for name in of_estimator.keys() & names.keys():
                    hand_over = of_estimator[name]["hand_over_s"]
                    results.add(mode, seed, hand_over, where="Sec. III-F", metric="packet transmissions", **BOB)
    if (folder / "convergence.parquet").exists():
        episodes = polars.read_parquet(folder / "convergence.parquet")["episodes"][0]
        results.add(PUBLISHED, 1, episodes, where="Sec. III-F", metric="training episodes", **BOB)


def _add_estimators(results: Results, mode: str, seed: int, of: Mapping[Any, Mapping[str, Any]]) -> None:
    """Table III, and the means and improvements that the paper derives from it."""
    known: dict[tuple[str, str, str], float] = {}
    for metric, column in TABLE_3.items():
        for system in SYSTEMS_OF_BOB:
            for profile, condition in PROFILES.items():
                value = of.get((system, profile), {}).get(column)
                if value is not None:
                    known[metric, system, condition] = value
                    names = {"where": "Table III", "metric": metric, "condition": condition}
                    results.add(mode, seed, value, exact=system, **names)
    rivals = [system for system in SYSTEMS_OF_BOB if system != "BoB"]
    for metric in TABLE_3:
        if not all(
            (metric, system, condition) in known for system in SYSTEMS_OF_BOB for condition in PROFILES.values()
        ):
            continue
        is_error = "error" in metric
        printed = f"improvement of BoB over the others, {metric.removesuffix(' sMAPE')}"
        by_rival: dict[str, list[float]] = {rival: [] for rival in rivals}
        for condition in PROFILES.values():
            own = known[metric, "BoB", condition]
            for rival in rivals:
                ratio = own / known[metric, rival, condition] if known[metric, rival, condition] else math.nan
                by_rival[rival].append(100.0 * ((1.0 - ratio) if is_error else (ratio - 1.0)))
            mean = fmean(values[-1] for values in by_rival.values())
            results.add(mode, seed, mean, where="Sec. IV-D", metric=printed, condition=condition, **BOB)
        means = {rival: fmean(values) for rival, values in by_rival.items()}
        for rival, mean in {**means, "Average": fmean(means.values())}.items():
            names = {"where": "Table IV", "metric": f"improvement of BoB, {metric}"}
            results.add(mode, seed, mean, exact=f"BoB vs. {rival}", **names)
        results.add(mode, seed, fmean(means.values()), where="Sec. IV-D", metric=printed, condition="all", **BOB)
        for system in SYSTEMS_OF_BOB:
            mean = fmean(known[metric, system, condition] for condition in PROFILES.values())
            results.add(mode, seed, mean, where="Sec. IV-D", metric=f"{metric}, mean", exact=system)
    accuracy = "prediction accuracy"
    if (accuracy, "HRCC", "Cascade") in known:
        above = 100.0 * (known[accuracy, "HRCC", "Cascade"] / known[accuracy, "BoB", "Cascade"] - 1.0)
        results.add(mode, seed, above, where="Sec. IV-D", metric="HRCC's accuracy above")


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    made = ArgumentParser(prog="lockstep study papers", description=(__doc__ or "").partition("\n")[0])
    add_arguments(made, "papers", budgets=tuple(SIZES))
    made.add_argument("--parts", nargs="+", choices=PARTS, default=tuple(PARTS), help="parts to run (default: all)")
    made.add_argument(
        "--profiles", type=Path, metavar="DIR", help="folder of BoB's published profiles (default: generated ones)"
    )
    made.add_argument("--clip", metavar="CLIP", help="clip of the part `links` (default: a generated one)")
    made.add_argument(
        "--testbed",
        type=Path,
        nargs="+",
        default=(),
        metavar="DIR",
        help="folders of lockstep testbed run, for Chromium's values",
    )
    return made


def run_links(study: Study, options: argparse.Namespace) -> None:
    """Runs the calls over the links of Salsify's paper."""
    table = study.run(link_cells(options, study.folder), lambda cell: link_call(cell, study.folder), options.workers)
    study.write("links", table)


def run_concerto(study: Study, options: argparse.Namespace) -> None:
    """Runs the study of Concerto as published, whose trainings require PyTorch."""
    parts = ("observation", "controllers", "inputs", "losses", "smoothness", "mismatch", "beta", "loops", "epochs")
    concerto.main([*_words(study, options, "concerto"), "--as-published", "--parts", *parts])


def run_bob(study: Study, options: argparse.Namespace) -> None:
    """Runs the study of BoB with the conventional codec, as in its paper."""
    words = [*_words(study, options, "bob"), "--codecs", "conventional", "--as-published"]
    words += ["--parts", "estimators", "thresholds", "online"]
    bob.main([*words, "--profiles", str(options.profiles)] if options.profiles else words)


def _words(study: Study, options: argparse.Namespace, name: str) -> list[str]:
    """The arguments of another study in a subfolder."""
    words = ["--output", str(study.folder / name), "--budget", options.budget, "--seeds", str(options.seeds)]
    return [*words, "--workers", str(options.workers), *(["--fresh"] if options.fresh else [])]


PARTS: Mapping[str, Callable[[Study, argparse.Namespace], None]] = {
    "links": run_links,
    "concerto": run_concerto,
    "bob": run_bob,
}
"""The parts by name, in their order."""


def results_of(folder: Path, testbeds: Sequence[Path]) -> Results:
    """The results of all parts that a folder has, and of runs of the testbed."""
    results = Results()
    if (folder / "links.parquet").exists():
        add_links(results, polars.read_parquet(folder / "links.parquet"))
    add_concerto(results, folder / "concerto")
    add_bob(results, folder / "bob")
    for testbed in testbeds:
        add_testbed(results, testbed)
    return results


def main(arguments: list[str] | None = None) -> int:
    """Runs the parts and writes the book; returns the exit status."""
    options = parser().parse_args(arguments)
    size = SIZES[options.budget]
    options.size = replace(size, clip=options.clip or size.clip)
    options.seeds = options.seeds or size.seeds
    for testbed in options.testbed:
        add_testbed(Results(), testbed)
    study = Study("papers", options.output, fresh=options.fresh)
    if "links" in options.parts:
        study.announce(link_works(study, options))
    began = time.monotonic()
    for number, part in enumerate(options.parts, 1):
        print(f"part {number} of {len(options.parts)}: {part}", file=sys.stderr)
        PARTS[part](study, options)
    results = results_of(options.output, options.testbed)
    table = results.table()
    study.write("papers", table)
    calls = f"calls over links of {options.size.seconds:.0f} s with {options.size.clip}"
    run = f"Budget {options.budget}: {options.seeds} seeds; {calls}."
    page = write_book(options.output, table, run)
    print(f"{time.monotonic() - began:.0f} s; the book: {page.resolve().as_uri()}")
    return 0


def link_works(study: Study, options: argparse.Namespace) -> list[Work]:
    """The calls that the part `links` is about to run; a short one of each system gives the times."""
    cells = study.unfinished(link_cells(options, study.folder))
    works = []
    for system in {**SYSTEMS, **ABLATIONS}:
        own = [cell for cell in cells if cell["system"] == system]
        if own:
            tried = min(TRIED_SECONDS, options.size.seconds)
            seconds = timed(lambda: link_call(own[0], study.folder, tried), tried / options.size.seconds)  # noqa: B023
            works.append(Work(f"calls of {system}", len(own), seconds, options.workers))
    return works


if __name__ == "__main__":
    sys.exit(main())
