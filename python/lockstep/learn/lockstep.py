"""Trains Lockstep's own controller: a distribution of the bytes that the path can deliver until a deadline.

The controller (``crates/control/src/learned/lockstep.rs``) gives the next frame a quantile of those bytes, less the
bytes in flight. The observations depend on what is sent, so training uses DAgger (Ross et al. 2011). The simulator
records observations and correct outputs in calls. Sprout controls the first calls, the current model the later ones,
with rules drawn at random. The sender cannot observe capacity beyond its sending rate, but the correct outputs
contain it.

The sections are the net, the samples, learning, the quality of forecasts, and the search for a rule. The loss is the
pinball loss (Koenker 2005). The traces are in ``families.py`` and the rule is in ``rule.py``.
"""

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from lockstep._lockstep import TrainingSetting, training_layout
from lockstep.learn.devices import device_of
from lockstep.learn.families import parts
from lockstep.learn.rule import (
    CLASSICAL,
    DELAY_WEIGHTS,
    TARGET_LEVELS,
    Search,
    check_clips,
    outcomes,
    rule_text,
    rules_of,
    settings_of,
    worth,
)
from lockstep.learn.training import FEEDBACK_MS, Run, train, write_onnx

Array = NDArray[np.float32]

OBSERVATIONS, HORIZONS, LEVELS, STATE = training_layout()
OBSERVED = len(OBSERVATIONS)
FORECAST = len(HORIZONS) * len(LEVELS)


# --- The net --------------------------------------------------------------------------------------------------------


class Net(nn.Module):
    """Observation of a picture and memory -> quantiles and the next memory."""

    mean: torch.Tensor
    scale: torch.Tensor

    def __init__(self, mean: torch.Tensor, deviation: torch.Tensor) -> None:
        """An untrained net: it returns the mean of Sprout's filter. The inputs have this mean and deviation."""
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("scale", 1.0 / deviation.clamp_min(0.05))
        self.memory = nn.GRU(OBSERVED, STATE)
        self.body = nn.Linear(STATE + OBSERVED, 64)
        self.head = nn.Linear(64, FORECAST)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def normalise(self, mean: torch.Tensor, deviation: torch.Tensor) -> None:
        """Sets the mean and deviation of the inputs."""
        self.mean.copy_(mean)
        self.scale.copy_(1.0 / deviation.clamp_min(0.05))

    def forecast(self, remembered: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        """The quantiles."""
        forecast: torch.Tensor = self.head(torch.relu(self.body(torch.cat([remembered, seen], -1))))
        return forecast

    def follow(self, seen: torch.Tensor, remembered: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Quantiles for each picture of calls [pictures, calls, observed], and the memory after the last one."""
        seen = (seen - self.mean) * self.scale
        states, last = self.memory(seen, remembered)
        return self.forecast(states, seen), last

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        """One picture, as in the controller: a row of observation and memory -> a row of quantiles and memory."""
        seen, before = (given[:, :OBSERVED] - self.mean) * self.scale, given[:, OBSERVED:]
        memory = self.memory
        weights: list[torch.Tensor] = list(memory.parameters())
        of_seen = nn.functional.linear(seen, weights[0], weights[2])
        of_before = nn.functional.linear(before, weights[1], weights[3])
        reset = torch.sigmoid(of_seen[:, :STATE] + of_before[:, :STATE])
        keep = torch.sigmoid(of_seen[:, STATE : 2 * STATE] + of_before[:, STATE : 2 * STATE])
        new = torch.tanh(of_seen[:, 2 * STATE :] + reset * of_before[:, 2 * STATE :])
        after = new + keep * (before - new)
        return torch.cat([self.forecast(after, seen), after], -1)


# --- The samples ----------------------------------------------------------------------------------------------------


def training_samples(
    options: argparse.Namespace, traces: Sequence[str], calls: int, seed: int, model: bytes | None
) -> tuple[Array, Array]:
    """Observations and correct outputs of ``calls`` calls over ``traces``, with settings from a wide range."""
    setting = TrainingSetting(
        list(traces),
        sizes=[(320, 180), (640, 360), (1280, 720), (1280, 720), (1920, 1080)],
        frame_rates=[5, 10, 12, 15, 20, 24, 25, 30, 30, 30, 30, 50, 60, 120],
        pictures=options.pictures,
        delay_ms=(5.0, 400.0),
        queue_packets=(30, 1000),
        loss=(0.002, 0.05),
        jitter_ms=(1.0, 30.0),
        feedback_ms=FEEDBACK_MS,
    )
    return setting.record(calls, seed=seed, threads=options.threads, model=model)


def begin(net: Net, path: Path, mean: torch.Tensor, deviation: torch.Tensor) -> None:
    """Loads the weights of an earlier model; observations that it lacks get mean, deviation and zero weights.

    Raises:
        ValueError: If the file is missing, damaged, or another kind of model.

    """
    import onnx  # noqa: PLC0415
    from onnx import numpy_helper  # noqa: PLC0415

    try:
        graph = onnx.load(str(path)).graph
        known = {value.name: torch.from_numpy(numpy_helper.to_array(value).copy()) for value in graph.initializer}
    except Exception as error:  # any type: protobuf and NumPy have their own
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"--begin {path}: truncated or invalid ONNX file: {why}") from error
    net.normalise(mean, deviation)
    own = net.state_dict()
    for name, value in own.items():
        if name not in known:
            message = f"--begin {path}: no `{name}` in it; expected a trained model of Lockstep's own controller"
            raise ValueError(message)
        earlier = known[name]
        wide = value.clone()
        try:
            if name in {"mean", "scale"}:
                wide[: len(earlier)] = earlier
            elif name in {"memory.weight_ih_l0", "body.weight"}:
                wide.zero_()
                wide[:, : earlier.shape[1]] = earlier
            else:
                wide = earlier.reshape(value.shape)
        except (RuntimeError, IndexError, TypeError) as error:
            message = f"--begin {path}: expected `{name}` of shape {tuple(value.shape)}, found {tuple(earlier.shape)}"
            raise ValueError(message) from error
        value.copy_(wide)


def model_bytes(net: Net, metadata: Mapping[str, str]) -> bytes:
    """The net as the bytes of an ONNX file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lockstep.onnx"
        write_onnx(net, path, shape=(OBSERVED + STATE,), names=("seen", "said"), metadata=metadata)
        return path.read_bytes()


class Exported:
    """A net that is exported once and copied with different metadata, because an export takes seconds."""

    def __init__(self, net: Net) -> None:
        """Exports ``net``."""
        import onnx  # noqa: PLC0415

        self._model = onnx.load_from_string(model_bytes(net, {}))

    def of(self, metadata: Mapping[str, str]) -> bytes:
        """The bytes of an ONNX file with this metadata."""
        from onnx import helper  # noqa: PLC0415

        helper.set_model_props(self._model, {"lockstep.controller": "lockstep", **metadata})
        text: bytes = self._model.SerializeToString()
        return text


# --- Learning -------------------------------------------------------------------------------------------------------


def pinball(forecast: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Pinball loss of each quantile and deadline; NaN where the correct output is unknown."""
    forecast = forecast.unflatten(-1, (len(HORIZONS), len(LEVELS)))
    short = right.unsqueeze(-1) - forecast
    levels = torch.tensor(LEVELS, device=forecast.device)
    return torch.maximum(levels * short, (levels - 1) * short)


def learn(
    options: argparse.Namespace,
    net: Net,
    optimiser: torch.optim.Optimizer,
    known: list[tuple[Array, Array]],
    rate: float,
) -> float:
    """One pass over all samples in random order; returns the mean loss."""
    for group in optimiser.param_groups:
        group["lr"] = rate
    device = device_of(net)
    # The samples stay in main memory, because a device may have too little.
    seen = torch.from_numpy(np.concatenate([part[0] for part in known]))
    right = torch.from_numpy(np.concatenate([part[1] for part in known]))
    losses = []
    for calls in torch.randperm(len(seen)).split(options.batch):
        remembered = None
        for begin in range(0, seen.shape[1], options.chunk):
            part = seen[calls, begin : begin + options.chunk].transpose(0, 1).to(device)
            truth = right[calls, begin : begin + options.chunk].transpose(0, 1).to(device)
            whole = ~torch.isnan(truth[..., :1])
            forecast, remembered = net.follow(torch.nan_to_num(part), remembered)
            remembered = remembered.detach()
            loss = (
                pinball(forecast, torch.nan_to_num(truth)).mean((-1, -2)) * whole[..., 0]
            ).sum() / whole.sum().clamp_min(1)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimiser.step()
            losses.append(float(loss.detach()))
    return float(np.mean(losses))


def quality(net: Net, seen: Array, right: Array) -> dict[str, float]:
    """Quality of forecasts: their loss, the loss of fixed quantiles, and the error of their coverage."""
    truth = torch.from_numpy(right).transpose(0, 1)
    with torch.no_grad():
        forecast, _ = net.follow(torch.nan_to_num(torch.from_numpy(seen)).transpose(0, 1).to(device_of(net)), None)
        forecast = forecast.cpu()
        levels = torch.tensor(LEVELS)
        flat = truth.reshape(-1, len(HORIZONS))
        flat = flat[~torch.isnan(flat[:, 0])]
        same = torch.from_numpy(np.quantile(flat.numpy(), LEVELS, axis=0).astype(np.float32)).T.reshape(-1)
        known = ~torch.isnan(truth[..., 0])
        found = {
            "loss": float(pinball(forecast, truth)[known].mean()),
            "loss of fixed quantiles": float(pinball(same.expand(forecast.shape), truth)[known].mean()),
        }
        below = (truth.unsqueeze(-1) < forecast.unflatten(-1, (len(HORIZONS), len(LEVELS))))[known].float().mean(0)
        for index, horizon in enumerate(HORIZONS):
            found[f"worst error of coverage, {1000 * horizon:.0f} ms"] = float((below[index] - levels).abs().max())
    return found


# --- The search for a rule ------------------------------------------------------------------------------------------


def metadata_of(
    known: list[tuple[Array, Array]], rules: Mapping[str, str], target: float = TARGET_LEVELS[1]
) -> dict[str, str]:
    """Metadata of the model: the range of its training inputs, and the rules."""
    seen = np.concatenate([part[0].reshape(-1, OBSERVED) for part in known])
    seen = seen[~np.isnan(seen[:, 0])]
    least, most = seen.min(0), seen.max(0)
    entries = {
        "lockstep.seen_least": ",".join(f"{value:.3f}" for value in least),
        "lockstep.seen_most": ",".join(f"{value:.3f}" for value in most),
    }
    for latency, rule in rules.items():
        entries[f"lockstep.rule.{latency}"] = f"{rule},target_level={target}"
    return entries


def tune(  # noqa: PLR0913, PLR0917
    options: argparse.Namespace,
    run: Run,
    net: Net,
    known: list[tuple[Array, Array]],
    traces: list[str],
    state: dict[str, Any],
) -> dict[str, Search]:
    """Finds the rules, one generation after another; ``state`` is the checkpoint."""
    searches: dict[str, Search] = state.setdefault("searches", {name: Search(name) for name in DELAY_WEIGHTS})
    state.setdefault("generation", 0)
    calls = settings_of(traces, options.seed, options.tuned, options.tuned_clip)
    entries = metadata_of(known, {})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lockstep.onnx"
        exported = Exported(net)
        # The searches for other latencies start at the result for `balanced`, and take a quarter of the generations.
        others = max(1, options.generations // 4)
        plan = [("balanced", index) for index in range(options.generations)]
        plan += [(name, index) for index in range(others if options.generations else 0) for name in ("low", "quality")]
        for generation in range(state["generation"], len(plan)):
            latency, index = plan[generation]
            search = searches[latency]
            if latency != "balanced" and index == 0:
                search.begin_at(searches["balanced"])
            generator = np.random.default_rng([options.seed, generation, 0xCE])
            # Each generation draws other calls, so that the rule does not overfit to a few.
            some = [calls[index] for index in generator.permutation(len(calls))[: options.tuned_calls]]
            classical = outcomes(some, CLASSICAL, latency, None, seconds=options.tuned_seconds)
            tries, values = search.draw(generator, options.population), []
            for one in tries:
                path.write_bytes(exported.of({**entries, f"lockstep.rule.{latency}": rule_text(one)}))
                ours = outcomes(some, "lockstep", latency, path, seconds=options.tuned_seconds)
                values.append(worth(some, ours, classical))
            search.learn(tries, values)
            run.log(options.rounds * options.epochs + generation, {f"worth of the rule, {latency}": max(values)})
            run.show(
                0.6 + 0.4 * (generation + 1) / len(plan),
                f"{latency}: {max(values):.4f}, mean's {values[0]:.4f}, {rule_text(search.mean)}",
            )
            state["generation"] = generation + 1
            run.save(state)
        if "target" not in state and options.generations > 0 and options.target_level is None:
            # The target of codecs with a target rate is tuned last, and is the same for all latencies.
            generator = np.random.default_rng([options.seed, 0x7A6])
            some = [calls[index] for index in generator.permutation(len(calls))[: options.tuned_calls // 2]]
            setting: dict[str, Any] = {"seconds": options.tuned_seconds, "codec": "conventional"}
            classical = outcomes(some, CLASSICAL, "balanced", None, **setting)
            values = []
            for level in TARGET_LEVELS:
                rule = f"{rule_text(searches['balanced'].mean)},target_level={level}"
                path.write_bytes(exported.of({**entries, "lockstep.rule.balanced": rule}))
                ours = outcomes(some, "lockstep", "balanced", path, **setting)
                values.append(worth(some, ours, classical))
                run.show(1.0, f"target of quantile {level}: {values[-1]:.4f}")
            state["target"] = TARGET_LEVELS[int(np.argmax(values))]
            run.save(state)
    return searches


def learn_rounds(
    options: argparse.Namespace, run: Run, state: dict[str, Any], training: list[str], validation: list[str]
) -> tuple[Net, list[tuple[Array, Array]]]:
    """Runs the rounds that the checkpoint ``state`` lacks; returns the net and all samples."""
    known = []
    for index in range(state.get("round", 0)):
        kept = run.load_array(f"lessons-{index}")
        known.append((kept["seen"], kept["right"]))
    # The first round determines mean and deviation. A resumed run must not draw random numbers here.
    with torch.random.fork_rng(devices=[]):
        net = Net(torch.zeros(OBSERVED), torch.ones(OBSERVED)).to(run.device)
    optimiser = torch.optim.Adam(net.parameters(), options.learning_rate)
    if "net" in state:
        net.load_state_dict(state["net"])
        optimiser.load_state_dict(state["optimiser"])
    if options.begin and "net" not in state:
        begin(net, Path(options.begin), torch.zeros(OBSERVED), torch.ones(OBSERVED))
    checked = None
    passes = options.rounds * options.epochs
    for index in range(state.get("round", 0), options.rounds):
        # If training starts from a model, its own calls give the samples from the first round on.
        model = None if index == 0 and not options.begin else model_bytes(net, {})
        run.show(0.6 * index / options.rounds, f"round {index + 1}: {options.calls} calls")
        known.append(training_samples(options, training, options.calls, 1_000_003 * options.seed + index, model))
        run.save_array(f"lessons-{index}", seen=known[-1][0], right=known[-1][1])
        if index == 0:
            seen = known[0][0].reshape(-1, OBSERVED)
            seen = seen[~np.isnan(seen[:, 0])]
            mean, deviation = torch.from_numpy(seen.mean(0)), torch.from_numpy(seen.std(0))
            if options.begin:
                begin(net, Path(options.begin), mean, deviation)
            else:
                net.normalise(mean, deviation)
        for epoch in range(options.epochs):
            done = (index * options.epochs + epoch) / passes
            loss = learn(options, net, optimiser, known, options.learning_rate * (1 - done))
            run.show(0.6 * (done + 1 / passes), f"round {index + 1}, pass {epoch + 1}: loss {loss:.4f}")
        if checked is None:
            checked = training_samples(options, validation, max(8, options.calls // 8), 12_345, None)
        own = training_samples(options, validation, max(8, options.calls // 8), 12_346, model_bytes(net, {}))
        found = {"loss, training": loss, **quality(net, *checked)}
        found |= {f"{name}, own calls": value for name, value in quality(net, *own).items()}
        run.log((index + 1) * options.epochs, found)
        run.show(0.6 * (index + 1) / options.rounds, ", ".join(f"{name} {value:.4f}" for name, value in found.items()))
        state.update(net=net.state_dict(), optimiser=optimiser.state_dict(), round=index + 1)
        run.save(state)
        if options.stop_after is not None and index + 1 >= options.stop_after:
            break
    return net, known


def main(arguments: list[str] | None = None) -> int:
    """Trains; returns the exit status."""
    return train("lockstep", arguments, train_in)


def train_in(run: Run, options: argparse.Namespace) -> int:
    """Trains in the folder of a run; returns the exit status."""
    # Report invalid arguments before hours of training.
    rules_of({}, options.rule)
    if not options.export:
        check_clips(options.tuned_clip)
    if options.begin and not options.export:
        unlearned = torch.zeros(OBSERVED), torch.ones(OBSERVED)
        # The run draws the same random numbers with and without this check.
        with torch.random.fork_rng(devices=[]):
            begin(Net(*unlearned), Path(options.begin), *unlearned)
    training, validation, test = parts(options, run)
    state = run.load() or {}
    if options.export and "net" not in state:
        message = f"{run.folder} has no checkpoint yet"
        raise ValueError(message)
    if not options.export:
        net, known = learn_rounds(options, run, state, training, validation)
        if (
            options.stop_after is not None
            and state["round"] >= options.stop_after
            and options.stop_after < options.rounds
        ):
            return 0
        tune(options, run, net, known, training, state)
    net = Net(torch.zeros(OBSERVED), torch.ones(OBSERVED))
    net.load_state_dict(state["net"])
    known = [tuple(run.load_array(f"lessons-{index}").values()) for index in range(state["round"])]  # type: ignore[misc]
    rules = rules_of(state.get("searches", {name: Search(name) for name in DELAY_WEIGHTS}), options.rule)
    target = state.get("target", TARGET_LEVELS[1]) if options.target_level is None else options.target_level
    card = {
        "state": OBSERVATIONS,
        "says": f"ln(bytes until {HORIZONS} s / mean of Sprout's filter + 0.02), quantiles {LEVELS} of each",
        "interval_ms": "a picture",
        "rules": rules,
        "target_level": target,
        "trained_on": f"{run.trained_on()}; {options.fitted} of fitted families, and {options.varied} varied ones",
        "curves": run.curves,
    }
    given: dict[str, Any] = {
        "shape": (OBSERVED + STATE,),
        "names": ("seen", "said"),
        "metadata": metadata_of(known, rules, target),
    }
    path = run.export_judged(net, test, card=card, examples=examples_of(net, known), **given)
    names = ("loss, training", "loss", "loss of fixed quantiles", "loss, own calls", "worth of the rule, balanced")
    run.draw("Lockstep", names)
    run.close()
    print(path)
    return 0


def examples_of(net: Net, known: list[tuple[Array, Array]]) -> torch.Tensor:
    """Observation and memory of eight calls after a second."""
    seen = torch.nan_to_num(torch.from_numpy(known[-1][0][:8, :31])).transpose(0, 1)
    with torch.no_grad():
        _, remembered = net.follow(seen[:-1], None)
    return torch.cat([seen[-1], remembered[0]], -1)
