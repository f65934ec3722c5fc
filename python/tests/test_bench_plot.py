from pathlib import Path

import msgspec
import pytest

from lockstep import bench_plot

BENCH = {
    "clip": "generated",
    "width": 640,
    "height": 360,
    "pictures": 60,
    "menu_time": [1.2, 1.4],
    "encoders": [
        {
            "name": name,
            "kbps": [900.0 * scale, 300.0 * scale, 100.0 * scale],
            "psnr_db": [42.0, 39.0, 36.0],
            "ssim_db": [17.0, 14.0, 11.0],
            "frames_per_second": 100.0 * scale,
        }
        for name, scale in [("lockstep real-time", 1.0), ("libvpx --rt 4", 1.4)]
    ],
}


def test_a_bench_becomes_a_picture_that_names_every_encoder(tmp_path: Path) -> None:
    document = tmp_path / "codec.json"
    document.write_bytes(msgspec.json.encode(BENCH))
    picture = tmp_path / "plots" / "codec.png"
    assert bench_plot.main([str(document), "--output", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    specification = str(bench_plot.chart(bench_plot.load(document)).to_dict())
    assert all(name in specification for name in ["lockstep real-time", "libvpx --rt 4"])


@pytest.mark.parametrize("content", [b"", b"{}", b"[1, 2]", b'{"clip": 3}'])
def test_another_document_is_refused_in_one_line(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = tmp_path / "codec.json"
    document.write_bytes(content)
    assert bench_plot.main([str(document)]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
