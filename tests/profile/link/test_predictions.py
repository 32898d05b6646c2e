"""What recordings predict of others: steps of steps before them, more loader workers, waits from start offsets.

Replay of a recording itself is exact by construction; these are the figures that can be wrong. `-s` prints them.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import astrarium as ar

from .predictions import collective_us, linked_together, load, median, only, replay_us, resimulated, said, steps

pytestmark = [pytest.mark.shared, pytest.mark.exam]

FOUR_WORKERS = (181.6, 123.9, 126.8, 126.3, 163.5, 116.1)
"""ms: the steps of the same program with four loader workers (pytorch/kineto, tb_plugin/samples/resnet50_num_workers_4/
worker0.1623212756351.pt.trace.json.gz, ProfilerStep#5 to #10)."""


@pytest.mark.parametrize(("name", "within"), [("resnet_device", 0.05), ("real/resnet50_v100_a", 0.1)])
def test_a_step_from_the_step_before(shared: Path, tmp_path: Path, name: str, within: float) -> None:
    """A step cut out of a run ends with its last kernel: longer than between its marks, where the host runs ahead."""
    events = load(shared / "traces" / f"{name}.json.gz")
    spans, errors = steps(events), []
    for number, (before, after) in enumerate(pairwise(spans)):
        predicted = replay_us(tmp_path / str(number), only(events, *before))
        errors.append(said(f"{name}: step {number + 1} from step {number}", predicted, after[1] - after[0],
                           before[1] - before[0]))
    assert median([abs(error) for error in errors]) < within


def test_four_loader_workers_from_none(shared: Path, tmp_path: Path) -> None:
    """The loader's time leaves the main thread; the rest of the step, and the GPU, stay as they were recorded."""
    events = load(shared / "traces" / "real" / "resnet50_v100_a.json.gz")
    first = min(event["ts"] for event in events)
    loads = [(event["ts"] - first, event["ts"] + event["dur"] - first) for event in events
             if event["name"].startswith("enumerate(DataLoader)")]
    spans = steps(events)
    predicted = replay_us(tmp_path / "w", events, lambda at: any(begin <= at < end for begin, end in loads))
    predicted /= len(spans)
    error = said("resnet50_v100_a: four workers from none", predicted, 1000 * median(FOUR_WORKERS),
                 median([end - begin for begin, end in spans]))
    assert abs(error) < 0.2


def test_waits_of_eight_ranks_from_when_they_began(shared: Path, tmp_path: Path) -> None:
    """84 all_reduces of a Megatron step, timed by a network instead of as recorded, of ranks that begin when they did:
    what each rank spends in them follows from when the others arrive. One figure is fitted, the network's bandwidth."""
    recorded, begins = linked_together(shared / "traces" / "real", tmp_path, ranks=8)
    size, fastest = 64 << 20, float(np.median(recorded.min(axis=0)))      # us; the last to arrive waits for nobody
    network = ar.Network([ar.Ring(8, bandwidth=f"{2 * 7 / 8 * size / fastest} MB/s", latency="1 us")])
    result = resimulated(tmp_path, network)
    errors = [said(f"rank {rank} in its all_reduces", float(simulated.sum()), float(recorded[rank].sum()),
                   float(recorded.min(axis=0).sum()))
              for rank, simulated in enumerate(collective_us(result))]
    assert max(map(abs, errors)) < 0.005
    ends = max(begin + span for begin, span in begins)
    alone = max(span for _, span in begins)
    assert abs(said("8 ranks to the last end", float(result.makespan) / 1000, ends, alone)) < 0.001
