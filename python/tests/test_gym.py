from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.utils.env_checker import check_env

import lockstep.gym
from lockstep.gym import CallEnv, CallVectorEnv, LadderAction


@pytest.mark.parametrize("preset", ["bob", "concerto", "hrcc"])
def test_environment_passes_the_gymnasium_checker(preset: str) -> None:
    action = "rate" if preset == "hrcc" else preset
    place = "sender" if preset == "concerto" else "receiver"
    env = gymnasium.make("lockstep/Call-v0", observation=preset, action=action, reward=preset, place=place)
    check_env(env.unwrapped, skip_render_check=True)


def test_episodes_are_equal_only_for_equal_seeds() -> None:
    def episode(seed: int) -> list[float]:
        env = gymnasium.make("lockstep/Call-v0", episode_steps=30)
        env.reset(seed=seed)
        return [float(env.step(np.array([0.6], np.float32))[1]) for _ in range(30)]

    assert episode(4) == episode(4)
    assert episode(4) != episode(5)


def _seen(env: CallVectorEnv | CallEnv, action: np.ndarray) -> np.ndarray:
    """The concatenated observations of a few steps."""
    return np.array([env.step(action)[0] for _ in range(6)])


def test_list_of_seeds_gives_each_environment_its_own() -> None:
    # Gymnasium's annotation lacks lists, which its vectors accept.
    env: Any = gymnasium.make_vec("lockstep/Call-v0", num_envs=3)
    env.reset(seed=[3, 4, 5])
    together = _seen(env, np.full((3, 1), 0.7, np.float32))
    for place, seed in enumerate([3, 4, 5]):
        alone = CallEnv()
        alone.reset(seed=seed)
        np.testing.assert_array_equal(together[:, place], _seen(alone, np.array([0.7], np.float32)))


def test_seed_none_continues_the_random_state() -> None:
    def seen(seeds: list[int | None]) -> np.ndarray:
        env = CallVectorEnv(2)
        env.reset(seed=7)
        env.reset(seed=seeds)
        return _seen(env, np.full((2, 1), 0.7, np.float32))

    both, first, neither = seen([1, 2]), seen([1, None]), seen([None, None])
    np.testing.assert_array_equal(both[:, 0], first[:, 0])
    np.testing.assert_array_equal(first[:, 1], neither[:, 1])
    assert not np.array_equal(both[:, 1], first[:, 1])
    assert not np.array_equal(first[:, 0], neither[:, 0])


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        ([1, 2], "2 seeds for 3 environments"),
        ([1, 2, 3, 4], "4 seeds for 3 environments"),
        ([1, -2, 3], r"seed\[1\]: -2 is not a whole number"),
        ([1, 2, "3"], r"seed\[2\]: '3' is not a whole number"),
        (2**70, "seed: .* is not a whole number"),
    ],
)
def test_invalid_list_of_seeds_is_refused(seeds: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CallVectorEnv(3).reset(seed=seeds)


@pytest.mark.parametrize("count", [0, -1, 1.5, 2**21])
def test_invalid_number_of_environments_is_refused(count: Any) -> None:
    with pytest.raises(ValueError, match=f"num_envs: {count} is not a whole number from 1 to {2**20}"):
        CallVectorEnv(count)


def test_results_do_not_depend_on_threads() -> None:
    def features(threads: int) -> np.ndarray:
        env = CallVectorEnv(24, episode_steps=10, threads=threads)
        env.reset(seed=1)
        return np.stack([env.step(np.full((24, 1), 0.7))[4]["features"] for _ in range(25)])

    np.testing.assert_array_equal(features(1), features(2))


@pytest.mark.parametrize("action", ["rate", "bob", "concerto"])
def test_action_beyond_every_float_is_refused(action: str) -> None:
    env = CallEnv(action=action)
    env.reset(seed=1)
    with pytest.raises(ValueError, match=r"^invalid action"):
        env.step(10**400)


def test_threads_take_turns_at_one_environment() -> None:
    env = CallVectorEnv(8, episode_steps=1_000)
    env.reset(seed=1)
    actions = np.full((8, 1), 0.7)

    def steps() -> int:
        return sum(len(env.step(actions)[0]) for _ in range(40))

    with ThreadPoolExecutor(4) as pool:
        assert [done.result() for done in [pool.submit(steps) for _ in range(4)]] == [320] * 4


@pytest.mark.parametrize("threads", [-1, 1_025, 10**6])
def test_invalid_number_of_threads_is_refused(threads: int) -> None:
    with pytest.raises(ValueError, match=rf"threads: expected 0 \(one per core\) to 1024, found {threads}"):
        CallEnv(threads=threads)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("feedback_ms", "20"),
        ("feedback_ms", ["20"]),
        ("feedback_ms", {20.0}),
        ("episode_steps", -1),
        ("episode_steps", 1.5),
        ("queue_packets", (2**40, 2**41)),
        ("queue_packets", 20),
        ("initial_bps", -1),
        ("initial_bps", float("nan")),
        ("initial_bps", "1mbps"),
        ("bounds_bps", (1000, 1e13)),
        ("bounds_bps", (1000,)),
    ],
)
def test_number_out_of_range_is_refused_with_its_name(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name}: .* (is not a whole|is not a pair|is neither a) "):
        gymnasium.make("lockstep/Call-v0", **{name: value})


def test_bit_rate_may_be_a_whole_float() -> None:
    def features(**setting: Any) -> np.ndarray:
        env = CallVectorEnv(2, traces="constant:1mbps", feedback_ms=[np.float32(20), 40], **setting)
        env.reset(seed=3)
        return np.stack([env.step(np.full((2, 1), 0.7))[4]["features"] for _ in range(5)])

    whole = features(initial_bps=10**12, bounds_bps=(1_000, 5_000_000))
    np.testing.assert_array_equal(features(initial_bps=1e12, bounds_bps=(1e3, 5e6)), whole)


def test_closed_environments_refuse_every_call() -> None:
    call, calls = CallEnv(), CallVectorEnv(2)
    for env, action in ((call, np.full(1, 0.5)), (calls, np.full((2, 1), 0.5))):
        env.reset(seed=1)
        env.step(action)
        env.close()
        env.close()
        with pytest.raises(ClosedEnvironmentError):
            env.step(action)
        with pytest.raises(ClosedEnvironmentError):
            env.reset(seed=1)


def test_episode_restarts_in_the_step_after_truncation() -> None:
    env = gymnasium.make_vec("lockstep/Call-v0", num_envs=3, episode_steps=5)
    env.reset(seed=1)
    actions = np.full((3, 1), 0.5, np.float32)
    truncated, rewards, times = [], [], []
    for _ in range(8):
        _, reward, terminated, ended, info = env.step(actions)
        assert not terminated.any()
        truncated.append(bool(ended[0]))
        rewards.append(float(reward[0]))
        times.append(float(info["features"][0, 0]))
    assert truncated == [False] * 4 + [True] + [False] * 3
    assert rewards[5] == 0.0
    assert times == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0, 0.0, 0.2, 0.4])


def test_rate_above_capacity_costs_reward() -> None:
    def mean_reward(rate: float) -> float:
        env = gymnasium.make("lockstep/Call-v0", traces=["constant:1mbps"], reward="concerto", place="sender")
        env.reset(seed=3)
        return float(np.mean([float(env.step(np.array([rate], np.float32))[1]) for _ in range(60)]))

    def action(rate_bps: float) -> float:
        return float(np.log(rate_bps / 1e4) / np.log(8e6 / 1e4))

    modest, greedy = mean_reward(action(0.9e6)), mean_reward(action(2e6))
    assert modest > greedy + 0.3, (modest, greedy)


def test_unknown_preset_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"unknown reward 'money'; expected one of bob, concerto, hrcc"):
        gymnasium.make("lockstep/Call-v0", reward="money")
    with pytest.raises(ValueError, match="trace wishful"):
        gymnasium.make("lockstep/Call-v0", traces=["wishful"])


def test_codec_argument_selects_the_codec_model() -> None:
    def features(**setting: Any) -> np.ndarray:
        env = CallVectorEnv(2, traces="constant:1mbps", place="sender", **setting)
        env.reset(seed=3)
        # At once from 1 Mb/s down to a third of it.
        rates = [0.7] * 20 + [0.5] * 10
        return np.stack([env.step(np.full((2, 1), rate))[4]["features"] for rate in rates])

    functional, conventional = features(codec="functional"), features(codec="conventional")
    np.testing.assert_array_equal(features(), functional)
    # The conventional codec adopts a lower target over up to a second, and exceeds it until then.
    sent = list(lockstep.gym.FEATURES).index("sent_bps")
    assert conventional[20:23, :, sent].mean() > 1.2 * functional[20:23, :, sent].mean()
    with pytest.raises(ValueError, match=r"codec: `x264` is none of functional, conventional, av1$"):
        gymnasium.make("lockstep/Call-v0", codec="x264")


def test_custom_reward_is_used() -> None:
    class Idle:
        def reward(self, features: lockstep.gym.Features) -> np.ndarray:
            return -features["sent_bps"]

    env = CallVectorEnv(2, reward=Idle())
    env.reset(seed=1)
    _, rewards, _, _, info = env.step(np.full((2, 1), 0.5))
    column = list(lockstep.gym.FEATURES).index("sent_bps")
    np.testing.assert_array_equal(rewards, -info["features"][:, column])


@pytest.mark.parametrize("preset", ["bob", "concerto", "hrcc"])
def test_masked_reset_does_not_change_other_observations(preset: str) -> None:
    def observed(*, masked: bool) -> list[np.ndarray]:
        env = CallVectorEnv(3, observation=preset, loss=(0.02, 0.02))
        env.reset(seed=1)
        actions = np.full((3, 1), 0.5, np.float32)
        seen = [env.step(actions)[0] for _ in range(4)]
        if masked:
            after = env.reset(options={"reset_mask": np.array([False, True, False])})[0]
            np.testing.assert_array_equal(after[[0, 2]], seen[-1][[0, 2]])
            assert not np.array_equal(after[1], seen[-1][1])
        return [env.step(actions)[0] for _ in range(3)]

    for with_reset, without in zip(observed(masked=True), observed(masked=False), strict=True):
        np.testing.assert_array_equal(with_reset[[0, 2]], without[[0, 2]])
        assert not np.array_equal(with_reset[1], without[1])


@pytest.mark.parametrize("mask", [[True, False], np.array([1, 0, 1]), np.ones((3, 1), np.bool_), "all"])
def test_invalid_reset_mask_is_refused(mask: Any) -> None:
    env = CallVectorEnv(3)
    env.reset(seed=1)
    with pytest.raises(ValueError, match="reset_mask: expected 3 flags"):
        env.reset(options={"reset_mask": mask})


@pytest.mark.parametrize("made", [True, False])
def test_ended_episode_refuses_steps_until_reset(*, made: bool) -> None:
    env: Any = gymnasium.make("lockstep/Call-v0", episode_steps=3) if made else CallEnv(episode_steps=3)
    action = np.array([0.5], np.float32)
    with pytest.raises(ResetNeeded):
        env.step(action)
    for _ in range(2):
        env.reset(seed=1)
        assert [env.step(action)[3] for _ in range(3)] == [False, False, True]
        for _ in range(2):
            with pytest.raises(ResetNeeded, match="episode has ended"):
                env.step(action)


def test_step_before_the_first_reset_is_refused() -> None:
    env = CallVectorEnv(2)
    actions = np.full((2, 1), 0.5, np.float32)
    with pytest.raises(ResetNeeded):
        env.step(actions)
    with pytest.raises(ResetNeeded):
        env.reset(options={"reset_mask": np.array([True, False])})
    env.reset(options={"reset_mask": np.array([True, True])})
    env.step(actions)


def test_traces_may_be_one_path_or_a_sequence(tmp_path: Path) -> None:
    file = tmp_path / "steady.up"
    file.write_text("\n".join(str(12 * index) for index in range(1, 200)) + "\n")

    def capacity(traces: Any) -> float:
        env = CallEnv(traces=traces)
        env.reset(seed=1)
        return float(env.step(np.array([0.5], np.float32))[4]["capacity_bps"])

    assert capacity("constant:3mbps") == capacity(["constant:3mbps"]) == 3e6
    assert capacity(file) == capacity(str(file)) == capacity([file]) == pytest.approx(1e6, rel=0.1)
    with pytest.raises(ValueError, match='trace "constant:fast": rate'):
        capacity("constant:fast")
    with pytest.raises(ValueError, match="expected at least one trace"):
        capacity([])


@pytest.mark.parametrize("action", [-1, 26, 1.5, np.nan])
def test_ladder_refuses_an_invalid_index(action: float) -> None:
    env = CallVectorEnv(2, observation="concerto", action="concerto", reward="concerto")
    env.reset(seed=1)
    with pytest.raises(ValueError, match=r"invalid action .* of environment 1; expected 0 to 25"):
        env.step(np.array([3, action]))
    env.step(np.array([0, 25]))


def test_ladder_without_valid_rates_is_refused() -> None:
    np.testing.assert_array_equal(LadderAction([1e5, 2e5]).rates(np.array([1, 0])), [2e5, 1e5])
    for rates in ([], [1e5, -1.0], [np.inf]):
        with pytest.raises(ValueError, match=r"invalid ladder .* expected at least one rate"):
            LadderAction(rates)
    ladder = LadderAction.logarithmic(26).rates_bps
    assert (ladder[0], ladder[-1], len(ladder)) == (5e4, 8e6, 26)
