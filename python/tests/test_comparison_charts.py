"""Charts that compare simulated calls."""

import polars
import pytest

import lockstep
from lockstep.comparison_charts import (
    MAX_POINTS,
    call_frames,
    call_series,
    colour_by_name,
    cumulative,
    distributions,
    excerpt,
    over_time,
)


@pytest.fixture(scope="module")
def tables() -> tuple[polars.DataFrame, polars.DataFrame]:
    calls = {
        name: lockstep.simulate("constant:800kbps", controller=name, modelled=True, seconds=8.0)
        for name in ("sprout", "gcc")
    }
    frames = polars.concat([call_frames(name, call) for name, call in calls.items()])
    return frames, polars.concat([call_series(name, call) for name, call in calls.items()])


def test_every_captured_frame_has_its_delay(tables: tuple[polars.DataFrame, polars.DataFrame]) -> None:
    frames, series = tables
    of = frames.filter(polars.col("name") == "sprout")
    call = lockstep.simulate("constant:800kbps", controller="sprout", modelled=True, seconds=8.0)
    scored = of.filter(polars.col("at") < 8.0)["delay"]
    assert scored.quantile(0.95) == pytest.approx(call.scores["video_delay_ms"]["p95"], rel=0.05)
    assert series["at"].max() == pytest.approx(8.0, abs=1.0)
    assert series.filter(polars.col("rate") > 0.9).is_empty()


def test_charts_have_one_colour_for_each_call(tables: tuple[polars.DataFrame, polars.DataFrame]) -> None:
    frames, series = tables
    colour = colour_by_name(["sprout", "gcc"])
    lines = over_time(frames, series, colour).to_dict()["vconcat"]
    assert [panel["title"]["text"] for panel in lines] == ["Rate", "Video delay", "SSIM"]
    cdfs = distributions(frames, colour).to_dict()
    assert [panel["title"]["text"] for panel in cdfs["hconcat"]] == ["Video delay, ms", "SSIM, dB"]
    for rows in cdfs["datasets"].values():
        assert {row["name"] for row in rows} == {"sprout", "gcc"}
        assert all(0.0 < row["share"] <= 1.0 for row in rows)


def test_excerpt_starts_at_zero() -> None:
    table = polars.DataFrame({"at": [0.0, 60.0, 119.9, 120.0], "delay": [1, 2, 3, 4]})
    assert excerpt(table, (60.0, 120.0)).rows() == [(0.0, 2), (pytest.approx(59.9), 3)]


def test_distribution_ends_at_its_largest_value() -> None:
    values = [float(value) for value in range(10 * MAX_POINTS + 7)]
    points = cumulative(values)
    assert len(points) <= MAX_POINTS + 1
    assert points[-1] == (values[-1], 1.0)
    assert cumulative([]) == []
