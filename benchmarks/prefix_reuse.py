"""Reuse of prefixes by routing on a trace in Mooncake's format, beside DynoSim (NVIDIA Dynamo's simulator).

usage: prefix_reuse.py TRACE.jsonl [--workers N,N] [--block TOKENS] [--blocks N] [--dynosim PYTHON]

Workers, cache blocks and batch limits are equal, and so are times of steps: 20 us a prompt token, and 6 ms and 20 ns a
token in the cache for decoding, which neither takes from a model of a GPU. PYTHON: of an environment with `pip install
ai-dynamo==1.4.2`. Traces: FAST25-release/traces of https://github.com/kvcache-ai/Mooncake.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.serving.batch import Batch
from astrarium.serving.cache import Blocks
from astrarium.serving.fleet import Fleet, Instance
from astrarium.serving.loop import run
from astrarium.serving.policy import Policy
from astrarium.serving.requests import Mooncake
from astrarium.serving.scheduler import Scheduler
from astrarium.serving.server import Server
from astrarium.serving.shape import Shape

MS = 10**9      # ps
PROMPT, DECODE, CONTEXT = 0.02, 6.0, 2e-5       # ms a prompt token, a step that decodes, a token in its cache
TOKENS, BATCH = 8192, 256
MANY = 2_000_000        # tokens, where DynoSim's tables end
ROUTINGS: tuple[tuple[Literal["round_robin", "prefix"], str], ...] = (("round_robin", "round_robin"),
                                                                     ("prefix", "kv_router"))


class Linear(Struct, frozen=True):
    """Times of steps in ps that are linear in tokens."""

    how: str = "linear"

    def of(self, shape: Shape, /) -> int:
        """One step."""
        prompts = PROMPT * sum(prompt[0] for prompt in shape.prompts)
        return round(MS * (prompts + (DECODE + CONTEXT * shape.context if shape.count else 0.0)))

    def decoding(self, count: int, context: int, steps: int, _padding: int = 0, /) -> npt.NDArray[np.int64]:
        """Successive steps without prompts."""
        times = MS * (DECODE + CONTEXT * (context + count * np.arange(steps, dtype=np.float64)))
        return np.asarray(np.rint(times), np.int64)


def ours(options: argparse.Namespace, workers: int, routing: Literal["round_robin", "prefix"]) -> Mapping[str, float]:
    """Share of prompts found in caches, mean TTFT and TPOT in ms."""
    policy = Policy(block=options.block, routing=routing, max_tokens=TOKENS, max_batch=BATCH)
    servers = [Server(Scheduler(policy, Blocks(options.blocks, policy.block), Batch(policy.block)), Linear())
               for _ in range(workers)]
    found = run(Mooncake(path=options.trace).requests(), Fleet([Instance(servers)])).summary(whole=True)
    return {"reuse": float(found["prefix_hit_share"]), "ttft": float(found["ttft_mean_ns"]) / 1e6,
            "tpot": float(found["tpot_mean_ns"]) / 1e6}


def dynosim(options: argparse.Namespace, workers: int, routing: str, folder: Path) -> Mapping[str, float]:
    """Share of prompts found in caches, and mean TTFT and TPOT in ms, of DynoSim."""
    table, report = folder / "times.npz", folder / "report.json"
    ends = np.array([0.0, MANY])
    np.savez(table, prefill_isl=ends, prefill_ttft_ms=PROMPT * ends, decode_active_kv_tokens=ends,
             decode_context_length=ends, decode_itl=np.repeat(DECODE + CONTEXT * ends[:, None], 2, axis=1))
    engine = {"block_size": options.block, "num_gpu_blocks": options.blocks, "max_num_batched_tokens": TOKENS,
              "max_num_seqs": BATCH, "planner_profile_data": str(table)}
    subprocess.run([options.dynosim, "-m", "dynamo.replay", options.trace, "--trace-format", "mooncake",
                    "--num-workers", str(workers), "--router-mode", routing, "--extra-engine-args", json.dumps(engine),
                    "--report-json", str(report)], check=True, capture_output=True)
    found = json.loads(report.read_text())
    return {"reuse": found["prefix_cache_reused_ratio"], "ttft": found["mean_ttft_ms"], "tpot": found["mean_tpot_ms"]}


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("--workers", default="4,8")
    parser.add_argument("--block", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=16_384, help="of one worker")
    parser.add_argument("--dynosim", default="", metavar="PYTHON")
    options = parser.parse_args()
    print("workers  routing      simulator   reuse   TTFT     TPOT (means, ms)")
    with tempfile.TemporaryDirectory() as folder:
        for workers in (int(each) for each in options.workers.split(",")):
            for routing, theirs in ROUTINGS:
                lines = {"astrarium": ours(options, workers, routing)}
                if options.dynosim:
                    lines["dynosim"] = dynosim(options, workers, theirs, Path(folder))
                for name, found in lines.items():
                    print(f"{workers:>7}  {routing:<11}  {name:<9}  {found['reuse']:.4f}  {found['ttft']:6.1f}  "
                          f"{found['tpot']:6.2f}")


if __name__ == "__main__":
    main()
