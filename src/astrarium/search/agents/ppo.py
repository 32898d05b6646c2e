"""Proximal policy optimisation (Stable-Baselines3), on the action space of our Gymnasium environment.

A policy library calls its environment; a study asks its agent. So the policy learns in a thread of its own, whose
environment hands every batch of actions over and waits for its rewards: one of the two runs at any time.
"""

from __future__ import annotations

import importlib
import queue
import random
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from astrarium.config import Knob
from astrarium.errors import InputError
from astrarium.search.agents.base import Agent, Batch, Options, Scaled, Told, needed, one_objective
from astrarium.search.axes import Point
from astrarium.search.goal import Goal
from astrarium.search.space import Space

__all__ = ["Ppo"]

FOREVER = 1 << 50


class Ppo(Options, frozen=True, kw_only=True):
    """Episodes of one design. COSMIC lists PPO with a learning rate of 1e-5, entropy 0.1, clip 0.2 and an MLP of
    3 x 32, for tens of thousands of trials; the learning rate here is for hundreds."""

    tag: ClassVar[str] = "ppo"
    batch: Batch = 32
    learning_rate: Annotated[float, Knob("Step of the optimiser.", gt=0)] = 0.01
    entropy: Annotated[float, Knob("Weight of the entropy in the loss.", ge=0)] = 0.01
    clip: Annotated[float, Knob("How far the policy may move in one update.", gt=0)] = 0.2
    epochs: Annotated[int, Knob("Passes over each batch.", ge=1)] = 10

    def start(self, space: Space, goal: Goal, seed: int) -> Agent:
        """Start a search. Raises InputError for several objectives, and if a library is not installed."""
        one_objective("ppo", goal)
        needed("ppo", "rl", "stable_baselines3", "torch", "gymnasium", "stable_baselines3.common.vec_env")
        return _Ppo(self, space, seed)


class _Stop(Exception):      # noqa: N818
    """Ends the policy's thread."""


class _Wire:
    """The two queues between the agent and the policy's thread."""

    def __init__(self) -> None:
        self.actions: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.rewards: queue.SimpleQueue[Any] = queue.SimpleQueue()


def _states() -> tuple[Any, Any, Any]:
    """The libraries' global random states, which a policy uses."""
    torch: Any = importlib.import_module("torch")
    return random.getstate(), np.random.get_state(), torch.random.get_rng_state()      # noqa: NPY002


def _restore(states: tuple[Any, Any, Any]) -> None:
    torch: Any = importlib.import_module("torch")
    random.setstate(states[0])
    np.random.set_state(states[1])      # noqa: NPY002
    torch.random.set_rng_state(states[2])


def _end(wire: _Wire, thread: threading.Thread) -> None:
    """End the policy's thread and wait for it."""
    wire.rewards.put(None)
    if thread is not threading.current_thread():
        thread.join(30)


def _learn(options: Ppo, action_space: Any, wire: _Wire, seed: int) -> None:
    """Run the policy's thread; an exception goes to the agent."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            library: Any = importlib.import_module("stable_baselines3")
            environment = _wired(action_space, wire, options.batch)
            model = library.PPO("MlpPolicy", environment, learning_rate=options.learning_rate, n_steps=1,
                        batch_size=options.batch, n_epochs=options.epochs, ent_coef=options.entropy, seed=seed,
                        clip_range=options.clip, policy_kwargs={"net_arch": [32, 32, 32]}, device="cpu")
            model.learn(FOREVER)
    except _Stop:
        pass
    except Exception as error:
        wire.actions.put(error)


def _wired(action_space: Any, wire: _Wire, count: int) -> Any:
    """A vector environment of `count` one-step episodes whose rewards come over the wire."""
    spaces: Any = importlib.import_module("gymnasium.spaces")
    base: Any = importlib.import_module("stable_baselines3.common.vec_env")

    class Wired(base.VecEnv):      # type: ignore[misc]
        """Hands actions over and waits for rewards."""

        def __init__(self) -> None:
            super().__init__(count, spaces.Box(0.0, 1.0, (1,), np.float32), action_space)

        def reset(self) -> Any:
            return np.zeros((count, 1), np.float32)

        def step_async(self, actions: Any) -> None:
            self.own = _states()      # before the other side may go on
            wire.actions.put(actions)

        def step_wait(self) -> Any:
            rewards = wire.rewards.get()
            if rewards is None:
                raise _Stop
            _restore(self.own)
            infos: list[dict[str, Any]] = [{"terminal_observation": np.zeros(1, np.float32)} for _ in range(count)]
            return self.reset(), np.asarray(rewards, np.float32), np.ones(count, bool), infos

        def close(self) -> None:
            pass

        def get_attr(self, *_: Any, **__: Any) -> list[Any]:
            return [None] * count

        def set_attr(self, *_: Any, **__: Any) -> None:
            pass

        def env_method(self, *_: Any, **__: Any) -> list[Any]:
            return [None] * count

        def env_is_wrapped(self, *_: Any, **__: Any) -> list[bool]:
            return [False] * count

    return Wired()


class _Ppo:
    def __init__(self, options: Ppo, space: Space, seed: int):
        from astrarium.search.gym import action_space, action_wish

        self.options, self.space, self._wish = options, space, action_wish
        self.scaled, self.wire = Scaled(), _Wire()
        thread = threading.Thread(target=_learn, args=(options, action_space(space), self.wire, seed), daemon=True)
        weakref.finalize(self, _end, self.wire, thread)
        self.actions = self._others_turn(thread.start)

    def _others_turn(self, go: Callable[[], None]) -> Any:
        """Let the policy run until it hands over actions; the caller's random states stay as they are."""
        own = _states()
        go()
        actions = self.wire.actions.get()
        _restore(own)
        return actions

    def ask(self, count: int) -> list[Point]:
        """The points of the policy's next batch."""
        actions = self.actions
        if isinstance(actions, Exception):
            raise InputError("agent", f"ppo has failed ({type(actions).__name__}: {actions})") from actions
        if count < len(actions):
            raise InputError("agent", f"ppo gives {len(actions)} points at a time", expected="its own batch")
        return [self.space.projector.project(self._wish(self.space, action)) for action in actions]

    def tell(self, told: Sequence[Told]) -> None:
        """Reward the policy with the negative scaled values."""
        rewards = [-self.scaled(each)[0] for each in told]
        self.actions = self._others_turn(lambda: self.wire.rewards.put(rewards))
