"""`lockstep study ablation`: calls with a changed constant are compared with their baseline."""

import polars
import pytest

from lockstep.studies import ablation


def cell(variant: str, condition: str, calls: dict[tuple[str, int], float]) -> dict[str, object]:
    """The cell of a variant under a condition, with its calls' QoE_d by trace and seed."""
    rows = [{"trace": trace, "seed": seed, "qoe_d": qoe_d, "delay": 100.0} for (trace, seed), qoe_d in calls.items()]
    return {"variant": variant, "condition": condition, "calls": rows}


def test_calls_are_compared_with_their_baseline_call() -> None:
    cells = [
        cell(ablation.BASELINE, "plain", {("a", 1): 4.0, ("b", 1): 3.0}),
        cell(ablation.BASELINE, "loss 5 %", {("a", 1): 2.0, ("b", 1): 1.0}),
        cell("x.y=1", "plain", {("b", 1): 3.0, ("a", 1): 4.5}),
        cell("x.y=1", "loss 5 %", {("a", 1): 1.5, ("b", 1): 1.0}),
    ]
    found = ablation.compared(polars.DataFrame(cells))
    row = found.row(0, named=True)
    assert (row["variant"], row["calls"], row["changed"]) == ("x.y=1", 4, 2)
    assert row["qoe_d"] == pytest.approx(0.0)
    assert row["worst_call"] == pytest.approx(-0.5)
    assert row["worst_condition"] == "loss 5 %"
    assert "x.y=1" in ablation.words(found)


def test_unknown_conditions_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        ablation.main(["--variants", "x.y=1", "--conditions", "snow"])
    assert "snow" in capsys.readouterr().err
