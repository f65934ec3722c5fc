import copy
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lockstep import bench_charts, bench_report


def curve(scale: float) -> dict[str, Any]:
    return {
        "indices": [15, 51, 106],
        "kbps": [900.0 * scale, 300.0 * scale, 100.0 * scale],
        "psnr_db": [42.0, 39.0, 36.0],
        "ssim_db": [17.0, 14.0, 11.0],
    }


def encoder(name: str, scale: float) -> dict[str, Any]:
    return {
        "name": name,
        "curves": {"coarse": curve(scale), "fine": curve(4 * scale)},
        "seconds": [1.0],
        "frames_per_second": 100.0 * scale,
    }


def comparison(ours: str, against: str, rate: float) -> dict[str, Any]:
    rates = {"coarse": rate, "fine": None}
    return {"ours": ours, "against": against, "bd_rate_psnr": rates, "bd_rate_ssim": rates, "speed_ratio": 1.25}


def tradeoff(name: str, time: float, rate: float | None, *, on_hull: bool) -> dict[str, Any]:
    bits = {"bd_rate": rate, "on_hull": on_hull}
    return {"name": name, "time": time, "psnr": bits, "ssim": bits}


TRADEOFFS = [
    tradeoff("lockstep real-time", 1.0, 0.0, on_hull=True),
    tradeoff("lockstep 3", 1.4, 0.1, on_hull=False),
    tradeoff("lockstep-av1 1", 2.2, -0.15, on_hull=True),
    tradeoff("SVT-AV1 10", 9.0, -0.3, on_hull=True),
    tradeoff("x264 medium", 4.0, None, on_hull=False),
]


def clip(name: str, rate: float) -> dict[str, Any]:
    series = {"kbps": 100.0, "psnr_db": [40.0, 39.0, 41.5]}
    return {
        "name": name,
        "clip": f"{name}.mp4",
        "width": 640,
        "height": 360,
        "pictures": 60,
        "encoders": [
            encoder("lockstep real-time", 1.0),
            encoder("lockstep quality", 0.9),
            encoder("libvpx --rt 4", 1.4),
        ],
        "comparisons": [
            comparison("lockstep real-time", "libvpx --rt 4", rate),
            comparison("lockstep real-time", "libvpx --rt -8", rate),
            comparison("lockstep quality", "libvpx --good 0", rate),
        ],
        "decoding": [{"index": 51, "frames_per_second": 900.0, "speed_ratio": 1.1, "hash_time": 0.06}],
        "menus": {"two": 1.2, "three": 1.4, "key_frame": 2.0},
        "fits": {"time": 2.5, "fill_median": 0.96, "fill_p10": 0.9, "over": 1, "frames": 30},
        "drift": [{"motion": "pan", "index": 51, "ours": series, "libvpx": series}],
        "tradeoffs": TRADEOFFS,
    }


BENCH: dict[str, Any] = {
    "lockstep": "0.1.0",
    "libvpx": "v1.12.0",
    "clock": "core",
    "pictures": 60,
    "rounds": 3,
    "clips": [clip("bunny", -0.123), clip("<bikes>", 0.3)],
    "tradeoffs": TRADEOFFS,
    "aims": [
        {
            "what": "real-time, speed against --rt -8",
            "unit": "x",
            "better": "higher",
            "strict": False,
            "worst_allowed": 0.85,
            "median_allowed": 1.0,
            "median": 1.25,
            "worst": 0.8,
            "worst_clip": "bunny",
            "reached": False,
        },
        {"what": "state hash", "unit": "share", "better": "lower", "strict": True, "worst_allowed": 0.05},
    ],
}


def decode(document: dict[str, Any]) -> bench_charts.CodecBench:
    return msgspec.convert(document, type=bench_charts.CodecBench)


def test_page_names_every_clip_and_aim(tmp_path: Path) -> None:
    document = tmp_path / "codec.json"
    document.write_bytes(msgspec.json.encode(BENCH))
    output, figures = tmp_path / "page" / "codec.html", tmp_path / "figures"
    assert bench_report.main([str(document), "--output", str(output), "--figures", str(figures)]) == 0
    assert {path.name for path in figures.glob("*.pdf")} == {
        "rates.pdf",
        "speeds.pdf",
        "psnr.pdf",
        "ssim.pdf",
        "drift.pdf",
        "hull.pdf",
        "hull_ssim.pdf",
    }
    page = output.read_text()
    assert all(text in page for text in ["bunny", "&lt;bikes&gt;", "lockstep quality", "libvpx --rt 4", "−12.3 %"])
    assert "<bikes>" not in page
    assert all(f'id="{name}"' in page for name in ["rates", "speeds", "psnr", "ssim", "drift", "hull", "aims"])
    assert all(text in page for text in ["0 of 1", "not reached", "not measured"])
    assert "http://" not in page.split("<script")[0]


def test_aim_row_has_limits_and_results() -> None:
    first, second = decode(BENCH).aims
    assert bench_report.aim_row(first) == (
        "real-time, speed against --rt -8",
        "at least 0.85× on every clip, at least 1.00× in the median",
        "1.25×",
        "0.80×",
        "bunny",
        "not reached",
    )
    row = bench_report.aim_row(second)
    assert (row.aim, row.median, row.clip, row.reached) == ("below 5.0 % on every clip", "–", "–", "not measured")
    within = msgspec.structs.replace(first, reached=None, unknown_clip="black")
    assert bench_report.aim_row(within).reached == "not known on black"


def test_page_without_libvpx_has_other_measurements() -> None:
    bench = copy.deepcopy(BENCH)
    bench["libvpx"] = None
    for one in bench["clips"]:
        one["comparisons"] = []
        one["encoders"] = one["encoders"][:2]
        one["decoding"][0]["speed_ratio"] = None
        one["drift"] = []
        del one["tradeoffs"]
    page = bench_report.render_html(decode(bench))
    assert 'id="psnr"' in page
    assert not any(f'id="{name}"' in page for name in ["rates", "speeds", "drift", "hull"])


def test_hull_has_every_known_encoder_by_clip_and_family() -> None:
    (rows,) = bench_charts.hull(decode(BENCH), "psnr").to_dict()["datasets"].values()
    assert {row["clip"] for row in rows} == {"all clips", "bunny", "<bikes>"}
    assert {(row["encoder"], row["family"]) for row in rows} == {
        ("lockstep real-time", "lockstep"),
        ("lockstep 3", "lockstep"),
        ("lockstep-av1 1", "lockstep-av1"),
        ("SVT-AV1 10", "SVT-AV1"),
    }
    alone = copy.deepcopy(BENCH)
    del alone["clips"][1]
    (rows,) = bench_charts.hull(decode(alone), "ssim").to_dict()["datasets"].values()
    assert {row["clip"] for row in rows} == {"bunny"}


def test_curve_has_the_common_point_of_both_sets_once() -> None:
    bench = copy.deepcopy(BENCH)
    bench["clips"][0]["encoders"][0]["curves"]["fine"] = curve(1.0)
    table = bench_charts.curves(decode(bench), "psnr_db").to_dict()["datasets"]
    (rows,) = table.values()
    ours = [row for row in rows if (row["clip"], row["encoder"]) == ("bunny", "lockstep real-time")]
    assert sorted(row["index"] for row in ours) == [15, 51, 106]


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[1, 2]", b'{"clip": 3}', msgspec.json.encode({**BENCH, "clips": []})]
)
def test_another_document_is_refused_in_one_line(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = tmp_path / "codec.json"
    document.write_bytes(content)
    assert bench_report.main([str(document)]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
