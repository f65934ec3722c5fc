import json
from pathlib import Path

import polars
import pytest
from fake_call import write_fake_call

from lockstep.call_log import FRAME_COLUMNS, CallLogError, load_call, load_frames, ssim_db

HEADER = "capture,captured_at,outcome"


def test_csv_and_parquet_give_equal_frames(tmp_path: Path) -> None:
    _, csv = write_fake_call(tmp_path, seconds=3.0, frames_name="frames.csv")
    _, parquet = write_fake_call(tmp_path, seconds=3.0, frames_name="frames.parquet")
    from_csv, from_parquet = load_frames(csv), load_frames(parquet)
    assert from_csv.schema == from_parquet.schema == FRAME_COLUMNS
    exact = [name for name, dtype in FRAME_COLUMNS.items() if dtype != polars.Float64]
    assert from_csv.select(exact).equals(from_parquet.select(exact))
    for name in set(FRAME_COLUMNS) - set(exact):
        assert from_csv[name].is_null().equals(from_parquet[name].is_null())
        difference = (from_csv[name] - from_parquet[name]).abs().max()
        assert difference is None or float(str(difference)) < 1e-5


def test_csv_flags_are_read_as_rust_writes_them(tmp_path: Path) -> None:
    path = tmp_path / "frames.csv"
    path.write_text(f"{HEADER},key_frame,recovery\n0,0.0,sent,true,false\n")
    row = load_frames(path).row(0, named=True)
    assert (row["key_frame"], row["recovery"], row["quantizer"]) == (True, False, None)


def test_unknown_columns_and_keys_are_ignored(call: tuple[Path, Path], tmp_path: Path) -> None:
    document = json.loads(call[0].read_text()) | {"weather": "fair"}
    path = tmp_path / "other.json"
    path.write_text(json.dumps(document))
    assert load_call(path) == load_call(call[0])
    frames = tmp_path / "other.csv"
    frames.write_text(f"{HEADER},mood\n0,0.0,sent,good\n")
    assert "mood" not in load_frames(frames).columns


def test_nan_and_infinity_become_null(tmp_path: Path) -> None:
    path = tmp_path / "frames.csv"
    path.write_text(f"{HEADER},ssim,video_delay\n0,0.0,sent,NaN,inf\n")
    assert load_frames(path).select("ssim", "video_delay").row(0) == (None, None)


def test_ssim_of_one_is_sixty_decibels() -> None:
    values = polars.DataFrame({"ssim": [0.9, 1.0, None]}).select(ssim_db(polars.col("ssim")))
    assert values.to_series().round(6).to_list() == [10.0, 60.0, None]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "truncated"),
        ("{", "truncated"),
        ("[]", "Expected `object`"),
        ('{"kind": "call"}', "`lockstep`"),
        ('{"lockstep": "0.1.0", "kind": "call", "frames": {"sent": "many"}}', r"\$\.frames\.sent"),
        ('{"lockstep": "0.1.0", "kind": "call", "series": {"interval_ms": 0}}', "positive"),
        ("[" * 100_000, "not the JSON document"),
        (b"\xff\xfe\x00", "not the JSON document"),
    ],
)
def test_invalid_call_document_is_refused_with_the_reason(tmp_path: Path, content: str | bytes, reason: str) -> None:
    path = tmp_path / "call.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(CallLogError, match=reason) as failure:
        load_call(path)
    assert str(path) in str(failure.value)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("frames.csv", b"", "not a frame log"),
        ("frames.csv", b"a,b\n1,2\n", "column capture is missing"),
        ("frames.csv", f"{HEADER}\n0,soon,sent\n".encode(), "not a frame log"),
        ("frames.csv", f"{HEADER}\n0,,sent\n".encode(), "no captured_at"),
        ("frames.csv", f"{HEADER}\n0,0.0,sent,1,2,3\n".encode(), "not a frame log"),
        ("frames.parquet", b"PAR1 but not really", "not a frame log"),
        ("frames.txt", b"", "csv or .parquet"),
    ],
)
def test_invalid_frame_log_is_refused_with_the_reason(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(CallLogError, match=reason):
        load_frames(path)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CallLogError, match=r"nothing\.json: No such file"):
        load_call(tmp_path / "nothing.json")
    with pytest.raises(CallLogError, match=r"nothing\.csv: No such file"):
        load_frames(tmp_path / "nothing.csv")
