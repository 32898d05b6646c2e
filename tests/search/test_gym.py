"""The Gymnasium environment, by Gymnasium's own checker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.search.designs import four_dims, small_space

from astrarium.errors import InputError
from astrarium.search import Space, dump_space
from astrarium.search.evaluate import Evaluator
from astrarium.search.goal import goal_of

gymnasium = pytest.importorskip("gymnasium")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_passes_the_checker(tmp_path: Path) -> None:
    from gymnasium.utils.env_checker import check_env

    import astrarium.search.gym  # noqa: F401

    dump_space(small_space(), tmp_path / "space.yaml")
    env = gymnasium.make("Astrarium/Design-v0", space=str(tmp_path / "space.yaml"), minimize="makespan")
    check_env(env.unwrapped)


def test_rewards_points_and_the_log(tmp_path: Path) -> None:
    from astrarium.search.gym import DesignEnv

    space = small_space()
    env = DesignEnv(space, "makespan", require="network_bandwidth < 300", steps=50, log=str(tmp_path / "log"))
    judge = Evaluator(space, goal_of("makespan", require="network_bandwidth < 300"))
    env.reset(seed=1)
    env.action_space.seed(1)
    rewards = []
    for step in range(50):
        action = env.action_space.sample()
        observation, reward, ended, cut, info = env.step(action)
        verdict = judge(info["point"])
        assert space.number(info["point"]) >= 0
        assert observation in env.observation_space
        assert (reward == env.penalty) is (not verdict.feasible)
        assert (ended, cut) == (False, step == 49)
        rewards.append((reward, verdict.values[0] if verdict.feasible and verdict.values else float("inf")))
    assert [value for _, value in sorted(rewards, key=lambda each: -each[0])] == sorted(value for _, value in rewards)
    env.close()
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert len(lines) == 50
    assert lines[3]["reward"] == rewards[3][0]


def test_continua_have_levels_and_several_objectives_are_refused() -> None:
    from astrarium.search.gym import LEVELS, DesignEnv

    space = Space(four_dims(), {"network.dims[0].bandwidth": {"from": "10 GB/s", "to": "100 GB/s"}})
    env = DesignEnv(space, "makespan")
    assert list(env.action_space.nvec) == [LEVELS]
    assert env.step([LEVELS - 1])[4]["point"] == (100.0,)
    with pytest.raises(InputError, match="one objective"):
        DesignEnv(space, ["makespan", "network_bandwidth"])
