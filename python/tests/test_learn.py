"""Learned controllers. Tests that require PyTorch run with `make test-learn`, which installs it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tiny_trainings import TINY, train

from lockstep.learn.__main__ import main
from lockstep.learn.arguments import INPUTS, LADDERS, NETWORKS, parser
from lockstep.simulation import simulate
from lockstep.studies import concerto as concerto_study

MODELS = Path(__file__).parents[1] / "lockstep" / "learn" / "models"
SHIPPED = ("bob", "concerto", "gemini", "hrcc", "lockstep", "rlv")


@pytest.mark.parametrize("name", SHIPPED)
def test_model_has_a_card(name: str) -> None:
    card = json.loads((MODELS / f"{name}.json").read_text())
    assert card["controller"] == name
    assert card["bytes"] == (MODELS / f"{name}.onnx").stat().st_size < 5_000_000
    assert card["setting"]["seed"] >= 0
    assert {"opset", "input", "output", "state", "trained_on", "scores", "interval_ms"} <= card.keys()


def test_controller_without_shipped_model_names_the_option() -> None:
    with pytest.raises(ValueError, match=r"the controller mmsys24 has no embedded model: choose one with --model"):
        simulate("constant:1mbps", controller="mmsys24", seconds=1, modelled=True)


@pytest.mark.parametrize("name", SHIPPED)
def test_named_model_replaces_the_shipped_one(name: str) -> None:
    options: dict[str, Any] = {"trace": "constant:1mbps", "controller": name, "seconds": 5, "modelled": True}
    shipped, named = simulate(**options), simulate(**options, model=MODELS / f"{name}.onnx")
    assert named.scores == shipped.scores
    assert named.config["model"] == str(MODELS / f"{name}.onnx")


def test_invalid_model_is_refused(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.onnx"
    wrong.write_bytes((MODELS / "concerto.onnx").read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"model .*wrong\.onnx: truncated or invalid ONNX file"):
        simulate("constant:1mbps", controller="concerto", model=wrong, seconds=1, modelled=True)
    with pytest.raises(
        ValueError,
        match=r"model.* is for the controller concerto, rlv, .* or mmsys24, not for gcc",
    ):
        simulate("constant:1mbps", controller="gcc", model=wrong, seconds=1, modelled=True)


def test_model_of_another_controller_is_refused() -> None:
    for name in ("bob", "hrcc", "gemini"):
        with pytest.raises(ValueError, match=rf"lockstep.controller is `concerto`, expected `{name}`"):
            simulate("constant:1mbps", controller=name, model=MODELS / "concerto.onnx", seconds=1, modelled=True)


def test_mmsys24_model_runs_as_an_estimator(tmp_path: Path) -> None:
    onnx: Any = pytest.importorskip("onnx", reason="requires ONNX: `make test-learn`")
    make, real = onnx.helper, onnx.TensorProto.FLOAT
    # The model returns 400 kb/s at first and 100 kb/s more with each decision, at most 900 kb/s.
    shapes = {"obs": [1, "time", 150], "hidden_states": [1, 1], "cell_states": [1, 1]}
    inputs = [make.make_tensor_value_info(name, real, shape) for name, shape in shapes.items()]
    outputs = [make.make_tensor_value_info(name, real, None) for name in ("output", "state_out", "cell_out")]
    weights = {"none": 0.0, "more": 1e5, "first": 4e5, "most": 9e5}
    constants = [make.make_tensor(name, real, [1], [value]) for name, value in weights.items()]
    bounds = [make.make_tensor("low", real, [], [0.0]), make.make_tensor("high", real, [], [5e5])]
    ends = [
        make.make_tensor(name, onnx.TensorProto.INT64, [1], [at]) for name, at in (("from", 0), ("to", 1), ("axis", 2))
    ]
    nodes = [
        make.make_node("Slice", ["obs", "from", "to", "axis"], ["rate"]),
        make.make_node("Mul", ["rate", "none"], ["nothing"]),
        make.make_node("Add", ["hidden_states", "more"], ["grown"]),
        make.make_node("Clip", ["grown", "low", "high"], ["state_out"]),
        make.make_node("Add", ["state_out", "first"], ["estimate"]),
        make.make_node("Add", ["nothing", "estimate"], ["output"]),
        make.make_node("Identity", ["cell_states"], ["cell_out"]),
    ]
    graph = make.make_graph(nodes, "challenge", inputs, outputs, [*constants, *bounds, *ends])
    path = tmp_path / "challenge.onnx"
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 11)]), str(path))
    call: dict[str, Any] = {"trace": "constant:2mbps", "seconds": 10, "modelled": True, "clip": "generated:1280x720"}
    named = simulate(**call, estimator=path)
    assert 0.6e6 < named.scores["throughput_bps"] < 0.95e6
    assert simulate(**call, controller="mmsys24", model=path).scores == named.scores
    with pytest.raises(ValueError, match=r"lockstep.controller is `lockstep`, expected an estimator at the receiver"):
        simulate(**call, estimator=MODELS / "lockstep.onnx")
    # A model without the name of its controller counts as one of the challenge.
    nameless = onnx.load(str(MODELS / "lockstep.onnx"))
    del nameless.metadata_props[:]
    onnx.save(nameless, str(path))
    with pytest.raises(ValueError, match="150 numbers"):
        simulate(**call, estimator=path)


class TestTraining:
    """Tests with PyTorch."""

    @pytest.fixture(autouse=True)
    def _torch(self) -> None:
        pytest.importorskip("torch", reason="requires PyTorch: `make test-learn`")
        pytest.importorskip("onnx", reason="requires ONNX: `make test-learn`")

    @pytest.mark.parametrize("algorithm", TINY)
    def test_resumed_run_has_the_weights_of_a_full_run(self, algorithm: str, tmp_path: Path) -> None:
        import torch  # noqa: PLC0415

        def weights(folder: Path) -> dict[str, Any]:
            kept = torch.load(folder / "checkpoint.pt", weights_only=False)
            return dict(kept["state"]["net"])

        assert train(algorithm, tmp_path / "whole") == 0
        assert train(algorithm, tmp_path / "parts", "--stop-after", "1") == 0
        first = weights(tmp_path / "parts")
        assert train(algorithm, tmp_path / "parts") == 0
        whole, parts = weights(tmp_path / "whole"), weights(tmp_path / "parts")
        assert whole.keys() == parts.keys()
        assert all(torch.equal(whole[name], parts[name]) for name in whole)
        assert not all(torch.equal(first[name], parts[name]) for name in first)
        names = (f"{algorithm}.onnx", f"{algorithm}.json", f"{algorithm}.reference.json", "curve.png")
        assert all((tmp_path / "parts" / name).stat().st_size > 0 for name in names)
        assert list((tmp_path / "parts" / "tensorboard").iterdir())
        call = simulate(
            "constant:1mbps",
            controller=algorithm,
            model=tmp_path / "parts" / f"{algorithm}.onnx",
            seconds=5,
            modelled=True,
        )
        assert call.scores["throughput_bps"] > 0

    @pytest.mark.parametrize("algorithm", ["bob", "concerto", "rlv"])
    def test_model_as_published_runs_in_a_call(self, algorithm: str, tmp_path: Path) -> None:
        import onnx  # noqa: PLC0415

        own = {
            "bob": ["--episodes", "4", "--call-seconds", "4", "--calls", "4", "--windows", "40", "--epochs", "2"],
            "concerto": ["--loops", "1", "--epochs", "1", "--call-seconds", "8"],
            "rlv": ["--updates", "2", "--steps", "4", "--call-seconds", "4"],
        }
        words = ["--quiet", "--threads", "1", "--judged", "0", "--generated", "4", "--as-published", *own[algorithm]]
        assert main([algorithm, "--output", str(tmp_path), *words]) == 0
        model = tmp_path / f"{algorithm}.onnx"
        metadata = {entry.key: entry.value for entry in onnx.load(str(model)).metadata_props}
        if algorithm == "bob":
            assert metadata["lockstep.ranges_bps"] == "10000,2000000,4000000,6000000,8000000"
            assert metadata["lockstep.heuristic"] == "printed"
            # 4 calls of 20 decisions are two updates of 40.
            assert json.loads((tmp_path / "bob.json").read_text())["curves"]["reward"][-1][0] == 2
        else:
            assert (metadata["lockstep.inputs"], metadata["lockstep.pacing"]) == ("encoded", "1")
            assert (metadata["lockstep.decision"], metadata["lockstep.interval_ms"]) == ("best", "1000")
            assert metadata["lockstep.ladder_bps"].startswith("0,100000,200000,")
        call = simulate("constant:1mbps", controller=algorithm, model=model, seconds=5, modelled=True)
        assert call.scores["throughput_bps"] > 0

    def test_networks_differ_in_layers_and_agree_in_shape(self) -> None:
        import torch  # noqa: PLC0415

        from lockstep.learn.concerto import SHAPE, ConcertoNet  # noqa: PLC0415

        state = torch.rand(2, *SHAPE)
        sizes = set()
        for network in NETWORKS:
            net = ConcertoNet(26, network=network)
            assert net(state).shape == (2, 26)
            sizes.add(sum(weights.numel() for weights in net.parameters()))
            # Hidden signals have no effect.
            hidden = ConcertoNet(26, "transport", network)
            changed = state.clone()
            changed[:, 2:] = 0.0
            torch.testing.assert_close(hidden(changed), hidden(state))
        assert len(sizes) == len(NETWORKS)

    def test_printed_smoothness_matches_a_manual_sum(self) -> None:
        import torch  # noqa: PLC0415

        from lockstep.learn.concerto import printed_smoothness  # noqa: PLC0415

        # phi = 8 / 2 + 4 / 4 + 16 / 8 = 7; and 0 for the other call.
        places = torch.tensor([[16.0, 4.0, 8.0, 10.0], [0.0, 0.0, 0.0, 1.0]])
        assert printed_smoothness(places).item() == pytest.approx((3.0 + 1.0) / 2)

    def test_published_loss_weighs_by_the_largest_score(self) -> None:
        import torch  # noqa: PLC0415

        from lockstep.learn.concerto import imitation_loss  # noqa: PLC0415

        # The largest score is the expert's place; the mean place is above it.
        scores = torch.zeros(1, 4, 26)
        scores[..., 5] = 1.0
        expert = torch.full((1, 4), 5)
        assert imitation_loss(scores, expert, "overshoot", 8.0, 0.0, as_published=True).item() == 0.0
        assert imitation_loss(scores, expert, "overshoot", 8.0, 0.0).item() > 1.0

    def test_pensieve_net_convolves_each_history_alone(self) -> None:
        import torch  # noqa: PLC0415

        from lockstep.learn.concerto import SHAPE  # noqa: PLC0415
        from lockstep.learn.rlv import PensieveNet  # noqa: PLC0415

        net = PensieveNet(26)
        assert net.histories.weight.shape == (4 * 128, 4, 4)
        assert net(torch.rand(2, *SHAPE)).shape == (2, 26)

    def test_learned_rate_as_published_is_a_centre(self) -> None:
        from lockstep.studies.bob_online import converged_after, learned_rate  # noqa: PLC0415

        assert learned_rate([0.1, 0.2, 0.3, 0.4], as_published=True) == 7e6
        assert learned_rate([0.4, 0.3, 0.2, 0.1], as_published=True) == 1.005e6
        assert learned_rate([0.0, 0.0, 0.0, 1.0], as_published=False) == pytest.approx(8e6)
        rising = [(10, 0.0), (20, 0.5), (30, 0.95), (40, 1.0), (50, 1.02), (60, 1.0), (70, 0.99), (80, 1.01)]
        assert converged_after(rising) == 30
        assert converged_after(rising[:3]) is None
        assert converged_after([(step, float(step)) for step in range(8)]) is None

    def test_hand_over_needs_estimates_within_the_threshold(self) -> None:
        from lockstep.studies.bob_online import hand_over  # noqa: PLC0415

        call: dict[str, Any] = {"seconds": 10.0, "seed": 1, "as_published": False}
        shipped = hand_over(MODELS / "bob.onnx", "constant:1mbps", threshold=0.3, **call)
        assert shipped["handed_over"] == 1.0
        assert 0.0 <= shipped["hand_over_s"] < 5.0
        never = hand_over(MODELS / "bob.onnx", "constant:1mbps", threshold=1e-9, **call)
        assert (never["hand_over_s"], never["learned_percent"]) == (10.0, 0.0)

    def test_choices_match_the_implementations(self) -> None:
        from lockstep.learn import concerto  # noqa: PLC0415

        assert (tuple(concerto.LADDERS), tuple(concerto.INPUTS)) == (LADDERS, INPUTS)

    def test_imitation_reduces_the_difference_from_the_expert(self) -> None:
        import torch  # noqa: PLC0415

        from lockstep.learn import concerto  # noqa: PLC0415

        torch.manual_seed(1)
        np.random.seed(1)
        options = parser("concerto").parse_args(["--output", "nowhere", "--call-seconds", "6", "--threads", "1"])
        traces = ["constant:300kbps", "constant:1mbps", "constant:4mbps"]
        net = concerto.ConcertoNet(26)
        expert = concerto.expert_of(options)
        samples, before = concerto.collect(options, traces, net, 1.0, 5, expert)
        _, start = concerto.collect(options, traces, net, 0.0, 6, expert)
        optimiser = torch.optim.Adam(net.parameters(), 1e-3)
        losses = [
            concerto.train_epoch(options, net, optimiser, [samples], lambda _share, _mean: None) for _ in range(3)
        ]
        _, after = concerto.collect(options, traces, net, 0.0, 6, expert)
        assert losses[-1] < losses[0]
        assert after["reward"] > start["reward"]
        assert before["reward"] > start["reward"]

    def test_rlv_rule_follows_the_queueing_delay(self) -> None:
        from lockstep.gym import FEATURES  # noqa: PLC0415
        from lockstep.learn import rlv  # noqa: PLC0415

        ladder = np.array([100e3, 200e3, 400e3, 800e3])
        features = np.zeros((5, len(FEATURES)))
        place = list(FEATURES).index
        features[:, place("smallest_delay_ms")] = 30.0
        features[:, place("delay_ms")] = [35.0, 35.0, 70.0, 200.0, 35.0]
        features[:, place("received_bps")] = [390e3, 90e3, 390e3, 390e3, 390e3]
        features[:, place("loss")] = [0.0, 0.0, 0.0, 0.0, 0.3]
        # Up; down by one if almost nothing was sent; held; down to four fifths of the throughput; down after losses.
        assert rlv.careful(ladder)(features, np.array([2, 3, 2, 2, 2])).tolist() == [3, 2, 2, 1, 1]

    def test_learned_quantiles_have_their_coverage(self) -> None:
        import torch  # noqa: PLC0415

        from lockstep.learn import lockstep as own  # noqa: PLC0415

        torch.manual_seed(1)
        words = ["--output", "nowhere", "--pictures", "150", "--batch", "8", "--threads", "1"]
        options = parser("lockstep").parse_args(words)
        traces = ["constant:300kbps", "constant:2mbps", "cellular:mean=1mbps,seed=1", "poisson:700kbps,seed=2"]
        known = own.training_samples(options, traces, 32, 1, None)
        assert known[0].shape == (32, 150, own.OBSERVED)
        again = own.training_samples(options, traces, 32, 1, None)
        assert all(np.array_equal(one, other, equal_nan=True) for one, other in zip(known, again, strict=True))
        net = own.Net(torch.zeros(own.OBSERVED), torch.ones(own.OBSERVED))
        before = own.quality(net, *known)
        optimiser = torch.optim.Adam(net.parameters(), 3e-3)
        # The rate falls to zero as in training: with a constant one, the error varies from 0.03 to 0.25 between passes.
        for done in range(20):
            own.learn(options, net, optimiser, [known], 3e-3 * (1 - done / 20))
        after = own.quality(net, *known)
        assert after["loss"] < 0.7 * min(before["loss"], before["loss of fixed quantiles"])
        assert after["worst error of coverage, 60 ms"] < 0.15

    def test_a_fifth_of_the_samples_have_jitter(self) -> None:
        from lockstep._lockstep import TrainingSetting  # noqa: PLC0415

        def seen(jitter_ms: float) -> NDArray[np.float32]:
            setting = TrainingSetting(
                ["constant:2mbps"],
                sizes=[(640, 360)],
                frame_rates=[30],
                pictures=60,
                delay_ms=(10.0, 10.0),
                queue_packets=(100, 100),
                loss=(0.01, 0.01),
                jitter_ms=(jitter_ms, jitter_ms),
                feedback_ms=(0.0,),
            )
            return setting.record(60, seed=3, threads=1)[0]

        steady, scattered = seen(0.0), seen(20.0)
        calls = zip(steady, scattered, strict=True)
        differ = sum(not np.array_equal(one, other, equal_nan=True) for one, other in calls)
        assert 4 <= differ <= 22, differ

    def test_stepwise_forward_equals_whole_call(self) -> None:
        import torch  # noqa: PLC0415

        from lockstep.learn import lockstep as own  # noqa: PLC0415

        torch.manual_seed(1)
        net = own.Net(torch.zeros(own.OBSERVED), torch.ones(own.OBSERVED))
        torch.nn.init.normal_(net.head.weight)
        seen = torch.randn(5, 1, own.OBSERVED)
        whole, _ = net.follow(seen, None)
        remembered = torch.zeros(1, own.STATE)
        for picture in range(5):
            output = net(torch.cat([seen[picture], remembered], -1))
            remembered = output[:, own.FORECAST :]
            torch.testing.assert_close(output[:, : own.FORECAST], whole[picture], rtol=1e-5, atol=1e-5)

    def test_rule_is_penalised_for_delays_above_classical(self) -> None:
        from lockstep.learn import rule  # noqa: PLC0415

        calls = [{"trace": "constant:1mbps", "loss": loss} for loss in ("0", "0.01")]
        classical = np.array([[4.0, 100.0], [4.0, 150.0]])
        even = rule.worth(calls, np.array([[4.0, 100.0], [4.0, 150.0]]), classical)
        np.testing.assert_allclose(even, 0.0, atol=1e-12)
        # Shorter delays without loss do not offset longer ones with loss. Better pictures count up to a limit.
        late = rule.worth(calls, np.array([[4.0, 50.0], [4.0, 200.0]]), classical)
        np.testing.assert_allclose(late, -rule.LATE * np.log(200 / 150) / 2)
        assert 0.0 < rule.worth(calls, np.array([[9.0, 100.0], [4.0, 150.0]]), classical) < rule.MAX_GAIN

    def test_delay_penalty_of_a_rule_matches_the_score(self) -> None:
        from lockstep.learn import rule  # noqa: PLC0415

        calls = [
            simulate(trace=f"constant:{rate}", delay_ms=delay, modelled=True, seconds=3.0).scores
            for rate in ("300kbps", "2mbps")
            for delay in (20.0, 200.0)
        ]
        terms = [[call["video_delay_ms"]["mean"] / 1e3, call["ssim_db"]["mean"], 1.0] for call in calls]
        (delay, _, _), *_ = np.linalg.lstsq(np.array(terms), np.array([call["qoe_d"] for call in calls]))
        assert delay == pytest.approx(-rule.DELAY)

    def test_given_rule_replaces_the_searched_one(self) -> None:
        from lockstep.learn import rule  # noqa: PLC0415

        searches = {latency: rule.Search(latency) for latency in rule.DELAY_WEIGHTS}
        searched = rule.rules_of(searches)
        given = searched["balanced"].replace("level=0.5500", "level=0.4")
        assert given != searched["balanced"]
        assert rule.rules_of(searches, [f"balanced={given}"]) == {**searched, "balanced": given}
        for wrong in ("", "balanced", "balanced=level=0.4", f"soon={given}", f"balanced={given},mood=1"):
            with pytest.raises(ValueError, match="and deadline"):
                rule.rules_of(searches, [wrong])

    def test_net_with_earlier_weights_gives_equal_outputs(self, tmp_path: Path) -> None:
        import torch  # noqa: PLC0415

        from lockstep.learn import lockstep as own  # noqa: PLC0415

        torch.manual_seed(1)
        earlier = own.Net(torch.randn(own.OBSERVED), torch.rand(own.OBSERVED) + 0.5)
        torch.nn.init.normal_(earlier.head.weight)
        torch.nn.init.normal_(earlier.head.bias)
        (tmp_path / "earlier.onnx").write_bytes(own.model_bytes(earlier, {}))
        net = own.Net(torch.zeros(own.OBSERVED), torch.ones(own.OBSERVED))
        own.begin(net, tmp_path / "earlier.onnx", torch.zeros(own.OBSERVED), torch.ones(own.OBSERVED))
        given = torch.randn(3, own.OBSERVED + own.STATE)
        torch.testing.assert_close(net(given), earlier(given))
        with pytest.raises(ValueError, match="expected a trained model of Lockstep's own"):
            own.begin(net, MODELS / "hrcc.onnx", torch.zeros(own.OBSERVED), torch.ones(own.OBSERVED))

    def test_expert_choice_is_capacity_less_the_queue(self) -> None:
        from lockstep.gym import FEATURES, LadderAction  # noqa: PLC0415
        from lockstep.learn import concerto  # noqa: PLC0415

        features = np.zeros((3, len(FEATURES)))
        features[:, list(FEATURES).index("next_capacity_bps")] = [1.05e6, 1.05e6, 1e3]
        features[:, list(FEATURES).index("queued_bytes")] = [0, 12_500, 0]
        ladder, present, choice = LadderAction().rates_bps, np.array([4, 4, 4]), concerto.expert_choice
        np.testing.assert_array_equal(choice(features, present, ladder, 0.2, "drains"), [10, 5, 0])
        np.testing.assert_array_equal(choice(features, present, ladder, 0.2, "capacity"), [10, 10, 0])
        np.testing.assert_array_equal(choice(features, present, ladder, 0.2, "climbs"), [6, 5, 0])

    def test_overshoot_costs_more_than_undershoot(self) -> None:
        import torch  # noqa: PLC0415

        from lockstep.learn.concerto import imitation_loss  # noqa: PLC0415

        def loss(place: int) -> float:
            scores = torch.zeros(1, 4, 26)
            scores[..., place] = 8.0
            return float(imitation_loss(scores, torch.full((1, 4), 10), "overshoot", 8.0, 0.5).item())

        assert loss(10) < loss(9) < loss(11)
        assert loss(9) < loss(7)

    def test_generated_traces_repeat_and_split_parts_are_disjoint(self, tmp_path: Path) -> None:
        from lockstep.learn.traces import generated_traces, split_folder  # noqa: PLC0415

        assert generated_traces(1, 20) == generated_traces(1, 20) != generated_traces(2, 20)
        for index in range(10):
            (tmp_path / f"{index}.up").write_text("1\n")
        training, test = split_folder(tmp_path, 3)
        assert (len(training), len(test)) == (8, 2)
        assert not set(training) & set(test)
        with pytest.raises(ValueError, match="no such folder"):
            split_folder(tmp_path / "none", 3)
        (tmp_path / "few").mkdir()
        with pytest.raises(ValueError, match="at least five"):
            split_folder(tmp_path / "few", 3)

    def test_varied_traces_repeat_and_each_carries_a_call(self) -> None:
        from lockstep.learn.families import varied_traces  # noqa: PLC0415

        traces = varied_traces(1, 40)
        assert traces == varied_traces(1, 40) != varied_traces(2, 40)
        assert {trace.partition(":")[0] for trace in traces} == {"poisson", "cellular", "onoff", "steps"}
        for trace in traces[:16]:
            assert 0.0 < simulate(trace=trace, modelled=True, seconds=5.0).scores["qoe_d"] < 5.0

    def test_search_calls_have_pixels_with_clips(self) -> None:
        from lockstep.learn import rule  # noqa: PLC0415

        traces = ["constant:1mbps", "poisson:1mbps"]
        assert all(call["modelled"] for call in rule.settings_of(traces, 1, 4))
        with_pixels = rule.settings_of(traces, 1, 4, ["generated:176x144@30"])
        assert {(call["clip"], call["modelled"]) for call in with_pixels} == {("generated:176x144@30", False)}
        assert rule.outcome(with_pixels[0], "sprout", "balanced", None, seconds=1.0)[1] > 0.0

    def test_selector_output_is_within_its_threshold(self) -> None:
        from lockstep.learn.bob import select  # noqa: PLC0415

        learned, heuristic = np.array([1.34e6, 1.36e6, 0.7e6, 0.76e6]), np.full(4, 1e6)
        np.testing.assert_array_equal(select(learned, heuristic, 0.3), [1.34e6, 1e6, 1e6, 0.76e6])

    def test_clone_equals_the_heuristic(self, tmp_path: Path) -> None:
        import torch  # noqa: PLC0415

        from lockstep.learn import bob, ppo  # noqa: PLC0415

        torch.manual_seed(1)
        words = ["--output", str(tmp_path), "--calls", "8", "--threads", "1", "--clone", "400", "--dropout", "0"]
        options = parser("bob").parse_args(words)
        learner = bob.Bob(options)
        traces = ["constant:300kbps", "constant:1mbps", "constant:4mbps"]
        assert ppo.clone(learner, options, traces, lambda seen: seen[:, -1]) < 0.05
        seen = ppo.examples(learner, options, traces)
        rates = learner.rates(seen.numpy(), learner.actor.eval()(seen).squeeze(-1).detach().numpy().astype(np.float64))
        assert np.abs(np.log(rates / learner.heuristic(seen.numpy()))).max() < 0.35

    def test_initial_rule_of_bob_stays_in_range_of_the_selector(self) -> None:
        from lockstep.gym.features import linear, logarithmic  # noqa: PLC0415
        from lockstep.learn.bob import careful, reach, select  # noqa: PLC0415

        seen = np.full((4, 11), logarithmic(np.array([1e6]))[0], np.float32)
        # No queueing delay; some; much; none, but only a quarter of the allowed rate arrives.
        seen[:, 1] = [0.0, 0.03, 0.4, 0.0]
        seen[3, 0] = logarithmic(np.array([250e3]))[0]
        rates = linear(careful(seen, 0.3))
        np.testing.assert_allclose(rates[[1, 3]], 1e6, rtol=1e-4)
        assert 1.2e6 < rates[0] < 1.3e6
        assert 0.7e6 < rates[2] < 0.8e6
        np.testing.assert_array_equal(select(rates, np.full(4, 1e6), 0.3), rates)
        assert reach(2.0) == 1.0

    def test_critic_input_has_capacities_until_the_end_of_call(self) -> None:
        import torch  # noqa: PLC0415

        from lockstep.gym import FEATURES  # noqa: PLC0415
        from lockstep.learn import ppo  # noqa: PLC0415

        capacities = torch.tensor([[0.5], [0.5], [1.0], [0.0]])
        ends = torch.tensor([[0.0], [1.0], [0.0]])
        known = ppo.future_capacities(capacities, ends)
        # The third step's capacity belongs to another call.
        np.testing.assert_allclose(known[:2].numpy(), 0.5)
        np.testing.assert_allclose(known[2, 0].numpy(), 0.0, atol=1e-7)
        inputs = ppo.privileged(np.zeros((2, len(FEATURES))), np.array([0.0, 1.0]))
        assert inputs.shape == (2, ppo.PRIVILEGED - len(ppo.FORESIGHT))
        assert np.isfinite(inputs).all()

    def test_policy_is_penalised_beyond_the_selector_range(self, tmp_path: Path) -> None:
        import torch  # noqa: PLC0415

        from lockstep.learn import bob  # noqa: PLC0415

        learner = bob.Bob(parser("bob").parse_args(["--output", str(tmp_path)]))
        seen = torch.full((3, 11), 0.5)
        excess = learner.excess(seen, torch.tensor([0.5, 0.53, 0.6]))
        assert excess[0] == excess[1] == 0.0
        assert excess[2] > 0.05

    def test_best_reward_uses_capacity_without_a_queue(self) -> None:
        from lockstep.gym import FEATURES  # noqa: PLC0415
        from lockstep.learn.ppo import best_reward  # noqa: PLC0415

        features = np.zeros((1, len(FEATURES)))
        features[:, list(FEATURES).index("capacity_bps")] = 8e6
        features[:, list(FEATURES).index("smallest_delay_ms")] = 50
        np.testing.assert_allclose(best_reward("bob", features), 0.95)
        np.testing.assert_allclose(best_reward("hrcc", features), 0.6 * np.log(33) - 0.05)

    def test_study_of_bob_compares_and_resumes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        import polars  # noqa: PLC0415

        from lockstep.studies import bob  # noqa: PLC0415

        monkeypatch.setattr(bob, "vmaf_missing", lambda: None)
        monkeypatch.setattr(bob, "vmaf_line", lambda _study: (2.0, 60.0))
        monkeypatch.setattr(bob, "measured_pictures", lambda _cell, _seconds: {})
        monkeypatch.setattr(bob, "THRESHOLDS", (5, 50))
        profiles = tmp_path / "profiles"
        profiles.mkdir()
        (profiles / "cascade_profile_x0.25").write_text("rate 1200kbit\nwait 2s\nrate 400kbit\nwait 2s\n")
        words = ["--output", str(tmp_path / "study"), "--profiles", str(profiles), "--seconds", "5", "--seeds", "2"]
        assert bob.main(words) == 0
        output = capsys.readouterr().out
        assert "BoB's total is above its heuristic's on" in output
        table = polars.read_parquet(tmp_path / "study" / "estimators.parquet")
        assert len(table) == 4 * 2 * 2
        weighed = table["network_bob"] + 0.3 * table["vmaf"] - table["total_bob"]
        assert weighed.abs().max() < 1e-9  # type: ignore[operator]
        # A threshold of 5 % gives other estimates than one of 50 %.
        by = polars.read_parquet(tmp_path / "study" / "thresholds.parquet").filter(polars.col("seed") == 1)
        assert by["receive_mbps"].n_unique() > 2
        journal = (tmp_path / "study" / "bob.journal").read_text()
        assert bob.main(words) == 0
        assert (tmp_path / "study" / "bob.journal").read_text() == journal
        with pytest.raises(ValueError, match="no profile of BoB's paper"):
            bob.main([*words, "--profiles", str(tmp_path)])

    def test_study_of_concerto_trains_each_variant_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(concerto_study, "TRAINING", {"small": tuple(TINY["concerto"])})
        words = ["--output", str(tmp_path), "--traces", "1", "--seconds", "5", "--seeds", "1"]
        words += ["--parts", "controllers", "inputs"]
        assert concerto_study.main(words) == 0
        output = capsys.readouterr().out
        assert "2 (transport)" in output
        assert len(list((tmp_path / "runs").iterdir())) == 2
        journal = (tmp_path / "concerto.journal").read_text()
        assert concerto_study.main(words) == 0
        assert (tmp_path / "concerto.journal").read_text() == journal
