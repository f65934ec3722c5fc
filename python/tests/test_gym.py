import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import lockstep.gym
from lockstep.gym import CallVectorEnv


@pytest.mark.parametrize("preset", ["bob", "concerto", "hrcc"])
def test_the_environment_passes_gymnasiums_checker(preset: str) -> None:
    action = "rate" if preset == "hrcc" else preset
    place = "sender" if preset == "concerto" else "receiver"
    env = gymnasium.make("lockstep/Call-v0", observation=preset, action=action, reward=preset, place=place)
    check_env(env.unwrapped, skip_render_check=True)


def test_equal_seeds_give_equal_episodes_and_other_seeds_others() -> None:
    def episode(seed: int) -> list[float]:
        env = gymnasium.make("lockstep/Call-v0", episode_steps=30)
        env.reset(seed=seed)
        return [float(env.step(np.array([0.6], np.float32))[1]) for _ in range(30)]

    assert episode(4) == episode(4)
    assert episode(4) != episode(5)


def test_one_thread_and_two_give_the_same() -> None:
    def features(threads: int) -> np.ndarray:
        env = CallVectorEnv(24, episode_steps=10, threads=threads)
        env.reset(seed=1)
        return np.stack([env.step(np.full((24, 1), 0.7))[4]["features"] for _ in range(25)])

    np.testing.assert_array_equal(features(1), features(2))


def test_an_episode_is_truncated_at_its_end_and_begins_again_in_the_step_after() -> None:
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


def test_asking_for_more_than_the_link_carries_costs_delay() -> None:
    def mean_reward(rate: float) -> float:
        env = gymnasium.make("lockstep/Call-v0", traces=["constant:1mbps"], reward="concerto", place="sender")
        env.reset(seed=3)
        return float(np.mean([float(env.step(np.array([rate], np.float32))[1]) for _ in range(60)]))

    def action(rate_bps: float) -> float:
        return float(np.log(rate_bps / 1e4) / np.log(8e6 / 1e4))

    modest, greedy = mean_reward(action(0.9e6)), mean_reward(action(2e6))
    assert modest > greedy + 0.3, (modest, greedy)


def test_a_preset_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(ValueError, match=r"no reward called 'money'; there are bob, concerto, hrcc"):
        gymnasium.make("lockstep/Call-v0", reward="money")
    with pytest.raises(ValueError, match="trace wishful"):
        gymnasium.make("lockstep/Call-v0", traces=["wishful"])


def test_rewards_of_ones_own_are_taken() -> None:
    class Idle:
        def reward(self, features: lockstep.gym.Features) -> np.ndarray:
            return -features["sent_bps"]

    env = CallVectorEnv(2, reward=Idle())
    env.reset(seed=1)
    _, rewards, _, _, info = env.step(np.full((2, 1), 0.5))
    column = list(lockstep.gym.FEATURES).index("sent_bps")
    np.testing.assert_array_equal(rewards, -info["features"][:, column])
