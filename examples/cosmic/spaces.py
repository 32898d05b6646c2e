"""The systems, workloads and spaces of COSMIC's evaluation (authors' talk), and the public code's variant of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import astrarium as ar
from astrarium.search.searchfile import load_search

HERE = Path(__file__).resolve().parent
SYSTEMS = (1, 2, 3)
STACKS = ("workload", "collective", "network", "compute")
MODELS = ("cosmic-gpt3-175b", "cosmic-gpt3-13b", "cosmic-vit-base", "cosmic-vit-large")
REWARDS = {"perf_per_bandwidth": "runtime_x_bandwidth", "perf_per_cost": "runtime_x_cost"}
DIMS_OF = {512: (4, 4, 4, 8), 1024: (4, 8, 4, 8), 2048: (4, 8, 8, 8)}      # System 2 made smaller and larger
PUBLIC_BANDWIDTHS = list(range(50, 501, 50))


@dataclass(frozen=True)
class Setup:
    """What a search is about: a system (or System 2 with `npus`), a model (with another `batch` than the system's), a
    stack, a reward, and whose rules."""

    stack: str
    reward: str
    system: int = 2
    model: str = "cosmic-gpt3-175b"
    npus: int | None = None
    preset: str = "talk"
    batch: int | None = None

    @property
    def name(self) -> str:
        """As files and tables name it."""
        size = f"s{self.system}" if self.npus is None else f"n{self.npus}"
        size += "" if self.batch is None else f"-b{self.batch}"
        return f"{size}-{self.model.removeprefix('cosmic-')}-{self.stack}-{self.reward}-{self.preset}"


def base(setup: Setup) -> ar.Design:
    """The design that the single stacks start from."""
    serving = setup.stack.startswith("inference")
    found = ar.load_design(HERE / ("inference.yaml" if serving else f"system{setup.system}.yaml"))
    found = ar.replace(found, "workload.model", setup.model)
    if setup.npus is not None:
        work = found.workload
        found = ar.replace_all(found, {
            **{f"network.dims[{place}].npus": size for place, size in enumerate(DIMS_OF[setup.npus])},
            "workload.tp": setup.npus // (work.dp * work.sp * work.pp), "workload.global_batch": 2 * setup.npus})
    if setup.batch is not None:
        found = ar.replace(found, "workload.global_batch", setup.batch)
    return ar.replace(found, "workload.model.layers", 4) if setup.preset == "public_code" else found


def space(setup: Setup) -> ar.Space:
    """The space of one stack, or of all (`full`), around a base. Under the cost reward the first dim is no switch, for
    the price list has none there; under the public code's rules it never is."""
    file = load_search(HERE / "spaces" / f"{setup.stack}.yaml").space
    start = base(setup)
    where = [f"network.npus == {start.network.npus}" if text.startswith("network.npus ==") else text
             for text in file.where]
    choices, derived, variables = dict(file.choices), dict(file.derived), dict(file.variables)
    if "network.dims[*].shape" in choices:
        if setup.reward == "perf_per_cost" or setup.preset == "public_code":
            where.append("network.dims[0].shape != 'switch'")
        if setup.preset == "public_code":
            _divided_by_seven(choices, derived, variables)
    return ar.Space(start, choices, where, derived, variables)


def _divided_by_seven(choices: dict[str, Any], derived: dict[str, str], variables: dict[str, Any]) -> None:
    """The public code's rule for bandwidths: of a fully connected dim a seventh for each of its n - 1 links."""
    del choices["network.dims[*].bandwidth_per_npu"]
    for place in range(4):
        dim = f"network.dims[{place}]"
        variables[f"bandwidth{place}"] = PUBLIC_BANDWIDTHS
        derived[f"{dim}.bandwidth_per_npu"] = \
            f"bandwidth{place} * if({dim}.shape == 'fully_connected', ({dim}.npus - 1) / 7, 1)"


def objective(setup: Setup) -> dict[str, str]:
    """What is made small. The public code adds up 7 links of every fully connected dim."""
    if setup.preset == "public_code" and setup.reward == "perf_per_bandwidth" and setup.stack in ("network", "full"):
        return {"runtime_x_bandwidth": "makespan * (bandwidth0 + bandwidth1 + bandwidth2 + bandwidth3)"}
    return {REWARDS[setup.reward]: REWARDS[setup.reward]}
