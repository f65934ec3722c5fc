import html
import json
import math
from pathlib import Path

import polars
import pytest

from lockstep.studies import concerto, papers
from lockstep.studies.papers_book import number, write_book
from lockstep.studies.printed_results import (
    CHROMIUM,
    DEFINITION,
    DIRECTION,
    NOT_MEASURED,
    NOT_REPRODUCED,
    OUT_OF_REACH,
    PUBLISHED,
    REPRODUCED,
    TODAY,
    UNDECIDED,
    Measured,
    Printed,
    Results,
    agreement,
    printed_results,
)

SHARED = Path(__file__).parents[3] / "shared" / "papers" / "figures.json"


def printed(metric: str = "delay", value: str = "100", unit: str = "ms", **names: str) -> Printed:
    given = {"paper": "Salsify (draft)", "where": "Fig. 1", "system": "a", "condition": "", **names}
    return Printed(metric=metric, value=value, unit=unit, **given)


@pytest.mark.skipif(not SHARED.exists(), reason="the list of printed figures is not there")
def test_every_result_of_the_list_is_printed() -> None:
    known = {each.key: each for each in printed_results()}
    for row in json.loads(SHARED.read_text()):
        if row["kind"] == "result":
            value = row["value"]
            text = "-".join(map(str, value)) if isinstance(value, list) else str(value)
            found = known[row["paper"], row["where"], row["metric"], row["system"], row["condition"]]
            assert (found.value, found.unit) == (text, row["unit"])


def test_every_result_appears_in_the_book(tmp_path: Path) -> None:
    table = Results().table()
    page = html.unescape(write_book(tmp_path, table, "nothing").read_text())
    assert set(table["agreement"]) == {NOT_MEASURED, OUT_OF_REACH}
    for row in table.iter_rows(named=True):
        assert row["metric"] in page
        assert row["value"] in page


@pytest.mark.slow
def test_book_draws_the_frames_of_calls(tmp_path: Path) -> None:
    folder = tmp_path / "frames" / "AT&T LTE"
    folder.mkdir(parents=True)
    at = [second / 30.0 for second in range(90)]
    for name in ("Salsify-1c", "Lockstep"):
        columns = {"name": [name] * 90, "at": at, "delay": [40.0] * 90, "ssim": [15.0] * 90}
        polars.DataFrame(columns).write_parquet(folder / f"{name}.parquet")
    page = write_book(tmp_path, Results().table(), "two calls").read_text()
    assert 'id="distributions-0"' in page
    assert 'id="minute"' in page
    assert (tmp_path / "figures" / "minute.pdf").exists()


def test_printed_values_are_numbers_and_names_are_unique() -> None:
    results = printed_results()
    assert len({each.key for each in results}) == len(results)
    assert all(math.isfinite(each.number) for each in results)


@pytest.mark.parametrize(
    ("value", "metric", "number_", "bound"),
    [
        ("10-15", "seconds, at most", 15.0, "most"),
        (">150", "recovery time", 150.0, "least"),
        ("~0", "stalling time", 0.0, ""),
        ("-2.1", "SSIM less Salsify-1c's", -2.1, ""),
        ("12", "PSR, least of all regions, at least", 12.0, "least"),
    ],
)
def test_printed_value_is_a_number_or_a_bound(value: str, metric: str, number_: float, bound: str) -> None:
    result = printed(metric, value)
    assert (result.number, result.bound) == (number_, bound)


@pytest.mark.parametrize(
    ("result", "ours", "expected"),
    [
        (printed(), Measured(95.0, 6.0, 5), REPRODUCED),
        (printed(), Measured(94.0, 5.0, 5), NOT_REPRODUCED),
        (printed(), Measured(90.0, 100.0, 5), UNDECIDED),
        (printed(), Measured(90.0, math.nan, 1), NOT_REPRODUCED),
        (printed(), None, NOT_MEASURED),
        (printed(system="FaceTime"), None, OUT_OF_REACH),
        (printed(value=">150"), Measured(200.0, 5.0, 5), REPRODUCED),
        (printed(value=">150"), Measured(100.0, 5.0, 5), NOT_REPRODUCED),
        (printed("throughput gain", "50", "%"), Measured(10.0, 5.0, 5), DIRECTION),
        (printed("throughput gain", "50", "%"), Measured(-10.0, 5.0, 5), NOT_REPRODUCED),
        (printed("throughput gain", "50", "%"), Measured(30.0, 40.0, 5), UNDECIDED),
        (printed("recovery", "4.8", "x longer"), Measured(1.3, 0.1, 5), DIRECTION),
        (printed("recovery", "4.8", "x longer"), Measured(0.9, 0.05, 5), NOT_REPRODUCED),
        (printed("GCC updates of video over GCC alone", "50.6", "%"), Measured(63.0, 5.0, 5), DIRECTION),
        (printed("normalised QoE", "1.0", "-"), Measured(1.0, 0.0, 5), DEFINITION),
    ],
)
def test_agreement_follows_interval_and_direction(result: Printed, ours: Measured | None, expected: str) -> None:
    assert agreement(result, ours, {}) == expected


def test_direction_is_that_from_the_other_systems() -> None:
    others = {printed(system="b", value="50"): Measured(30.0, 1.0, 5)}
    assert agreement(printed(), Measured(40.0, 1.0, 5), others) == DIRECTION
    assert agreement(printed(), Measured(20.0, 1.0, 5), others) == NOT_REPRODUCED


def test_interval_of_a_measured_value_is_over_seeds() -> None:
    results = Results()
    for seed, value in enumerate((1.0, 1.2, 1.4), 1):
        names = {"where": "Fig. 2", "metric": "video delay p95 over", "exact": "WebRTC"}
        results.add(PUBLISHED, seed, value, **names)
        results.add(TODAY, seed, math.nan, **names)
    row = results.table().filter(polars.col(PUBLISHED).is_not_null()).row(0, named=True)
    assert (row["system"], row["published_runs"], row[TODAY]) == ("WebRTC", 3, None)
    assert row[PUBLISHED] == pytest.approx(1.2)
    assert row["published_half"] == pytest.approx(4.303 * 0.2 / math.sqrt(3.0), rel=1e-3)


def links(seeds: int = 2) -> polars.DataFrame:
    """A table of the part `links`: WebRTC has twice Salsify's delay and 2 dB less."""
    ablations = dict.fromkeys(papers.ABLATIONS, 3.0)
    scale = {**ablations, "Salsify-1c": 1.0, "Salsify-2c": 0.9, "WebRTC": 2.0, "Lockstep": 0.5}
    return polars.DataFrame(
        [
            {
                "link": link,
                "system": system,
                "seed": seed,
                "ssim_p25_db": 14.0,
                "ssim_db": 16.0 - 2.0 * (system == "WebRTC"),
                "delay_mean_ms": 100.0 * factor,
                "delay_p95_ms": 200.0 * factor,
                "shown_delay_p50_ms": 50.0 * factor,
                "shown_delay_p95_ms": 150.0 * factor,
                "recovering": 3,
                "recovered_s": 8.0,
                "states": {"sender": 6.0, "receiver": 3.0},
                "choices": {"better": 0.5, "worse": 0.32, "none": 0.18},
            }
            for link in papers.LINKS
            for system, factor in scale.items()
            for seed in range(1, seeds + 1)
        ]
    )


def test_links_give_the_results_of_salsify_paper() -> None:
    results = Results()
    papers.add_links(results, links())
    table = results.table().filter(polars.col("paper").str.starts_with("Salsify"))
    known = {
        (row["where"], row["metric"], row["system"], row["condition"][:4]): row for row in table.iter_rows(named=True)
    }
    assert known["Fig. 2", "video delay p95", "Salsify-1c", "AT&T"][PUBLISHED] == 200.0
    assert known["Fig. 2", "video delay p95 over Salsify-1c's", "WebRTC", "AT&T"][PUBLISHED] == 2.0
    assert known["Fig. 2", "video delay p95 over Salsify-1c's", "WebRTC", "AT&T"][TODAY] == 4.0
    assert known["Fig. 2", "SSIM less Salsify-1c's", "WebRTC", "AT&T"][PUBLISHED] == -2.0
    fig_10 = known["Fig. 10(e)", "video delay mean (every captured frame)", "Salsify-2c", "Loss"]
    assert (fig_10[PUBLISHED], fig_10[TODAY]) == (90.0, 50.0)
    ablated = known["analysis files of its testbed", "displayed delay p95", "Salsify, conventional codec", "Veri"]
    assert ablated[PUBLISHED] == 450.0
    choices = table.filter(polars.col("metric").str.starts_with("opportunities"))
    assert choices["agreement"].to_list() == [REPRODUCED] * 3
    reachable = table.filter(polars.col("agreement") != OUT_OF_REACH)
    assert NOT_MEASURED not in set(reachable["agreement"])


def estimators() -> polars.DataFrame:
    """A table of the study of BoB in which BoB's values are twice those of the others."""
    columns = list(papers.TABLE_3.values())
    return polars.DataFrame(
        [
            {"estimator": name, "profile": f"{profile}, generated", "codec": "conventional", "seed": seed}
            | dict.fromkeys(columns, 2.0 if name == "bob-printed" else 1.0)
            for name in {**papers.ESTIMATORS[PUBLISHED], **papers.ESTIMATORS[TODAY]}
            for profile in papers.PROFILES
            for seed in (1, 2)
        ]
    )


def test_study_of_bob_gives_its_tables(tmp_path: Path) -> None:
    estimators().write_parquet(tmp_path / "estimators.parquet")
    results = Results()
    papers.add_bob(results, tmp_path)
    table = results.table().filter(polars.col("paper").str.starts_with("BoB"))
    assert table.filter(polars.col("where") == "Table III")[PUBLISHED].null_count() == 0
    improvements = table.filter(polars.col("metric") == "improvement of BoB, network score")
    assert improvements.filter(polars.col("where") == "Table IV")[PUBLISHED].to_list() == [100.0] * 4
    errors = table.filter(polars.col("metric").str.contains("error (reduction)", literal=True))
    assert errors[PUBLISHED].to_list() == [-100.0] * 6
    assert improvements.filter(polars.col("where") == "Table IV")[TODAY].to_list() == [0.0] * 4
    assert table.filter(polars.col("where") == "Sec. IV-D")[PUBLISHED].null_count() == 0


def concerto_table(part: str, *variants: str, scale: float = 0.1) -> polars.DataFrame:
    return polars.DataFrame(
        [
            {"part": part, "variant": variant, "network": network, "controller": "concerto", "codec": "conventional"}
            | {"seed": seed, "qoe_p": 1.0 + scale * index, "smoothness_kbps": 100.0 + 10.0 * index}
            for index, variant in enumerate(variants)
            for network in papers.NETWORKS
            for seed in (1, 2)
        ]
    )


def test_study_of_concerto_gives_its_tables(tmp_path: Path) -> None:
    concerto_table("inputs", "2 (transport)", "4 (both layers)").write_parquet(tmp_path / "inputs.parquet")
    concerto_table("losses", *concerto.VARIANTS["losses"]).write_parquet(tmp_path / "losses.parquet")
    concerto_table("smoothness", "with (0.5)", "without").write_parquet(tmp_path / "smoothness.parquet")
    concerto_table("mismatch", *papers.NETWORKS).write_parquet(tmp_path / "mismatch.parquet")
    results = Results()
    papers.add_concerto(results, tmp_path)
    table = results.table().filter(polars.col("paper").str.starts_with("Concerto"))

    def value(**names: str) -> float:
        found = table.filter(*(polars.col(name).str.starts_with(text) for name, text in names.items()))
        return float(found[PUBLISHED][0])

    assert value(where="Table 3", system="Concerto, 2-state") == pytest.approx(1.0 / 1.1)
    assert value(metric="QoE of the 2-state design") == pytest.approx(100.0 * (1.0 - 1.0 / 1.1))
    assert value(where="Table 3", system="Concerto, l1") == pytest.approx(1.0 / 1.3)
    assert value(metric="improvement of eta") == pytest.approx(10.0)
    assert value(where="Table 4", condition="row 3G, column WiFi") == pytest.approx(1.0 / 1.2)


def test_study_of_concerto_gives_gaps_and_gains(tmp_path: Path) -> None:
    rows = [
        {"controller": controller, "codec": codec, "network": network, "seed": seed}
        | {
            "qoe_p": 2.0 if controller == "concerto" else 1.5,
            "throughput_kbps": 300.0 if controller == "gcc" else 600.0,
        }
        for controller in ("concerto", "gcc", "salsify", "rlv")
        for codec in ("conventional", "functional")
        for network in papers.NETWORKS
        for seed in ((1, 2) if controller == "concerto" else (1,))
    ]
    polars.DataFrame(rows).write_parquet(tmp_path / "controllers.parquet")
    results = Results()
    papers.add_concerto(results, tmp_path)
    table = results.table()
    gaps = table.filter(polars.col("metric").str.starts_with("QoE gap"))
    assert gaps[PUBLISHED].to_list() == [25.0] * 3
    assert gaps["published_runs"].to_list() == [2] * 3
    gains = table.filter(polars.col("metric").str.starts_with("throughput gain"))
    assert gains[PUBLISHED].to_list() == [100.0, 100.0, 0.0]


def test_testbed_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no runs of lockstep testbed"):
        papers.add_testbed(Results(), tmp_path)


def test_runs_of_the_testbed_are_chromium(tmp_path: Path) -> None:
    row = {"case": "AT&T LTE", "program": "chromium", "repeat": 1, "counted": True, "ssim_db": 15.0}
    row |= {"ssim_p25_db": 14.0, "delay_mean_ms": 300.0, "delay_p95_ms": 900.0}
    polars.DataFrame([row]).write_parquet(tmp_path / "runs.parquet")
    results = Results()
    papers.add_testbed(results, tmp_path)
    assert results.table()[CHROMIUM].drop_nulls().to_list() == [14.0, 15.0, 300.0, 900.0]


def test_rotated_recording_keeps_every_opportunity(tmp_path: Path) -> None:
    times = [*sorted(moment * 12 + moment % 7 for moment in range(1, 400)), 5_000]
    recording = tmp_path / "link.up"
    recording.write_text("".join(f"{moment}\n" for moment in times))
    assert papers.rotated(recording, 1, tmp_path) == str(recording)
    moved = [int(line) for line in Path(papers.rotated(recording, 2, tmp_path)).read_text().split()]
    start = next(shift for shift in range(5_000) if sorted((each - shift) % 5_000 or 5_000 for each in times) == moved)
    assert start > 0
    assert len(moved) == len(times)
    assert moved[-1] == 5_000 or max(moved) < 5_000


def test_recovery_ends_with_ten_frames_in_a_second() -> None:
    sparse = [papers.RECOVERY + second for second in range(5)]
    dense = [papers.RECOVERY + 5.0 + frame / 30.0 for frame in range(30)]
    assert papers.recovered_after(sparse) != papers.recovered_after(sparse)
    assert papers.recovered_after(sparse + dense) == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (1234.5, "1,234"), (12.34, "12.3"), (0.1234, "0.123"), (0.0, "0")]
)
def test_numbers_have_three_digits(value: float | None, text: str) -> None:
    assert number(value) == text
