#!/usr/bin/env python3
"""The fields of every answer of `--json`: runs a command for each format, and writes docs/reference/json.md.

    python tools/json_formats.py            writes the page
    python tools/json_formats.py --check    fails if it is not current

A number's unit is in its name. Fields below a name with a unit have that unit.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "json.md"
QUICK, TRACES, CHAT = "examples/quickstart/design.yaml", "examples/quickstart/traces/layer", "chat.yaml"
LAYER = "model: {family: decoder, layers: 1, d_model: 256, heads: 2, ffn: 512, vocab: 1000, seq: 64}"
SUM = "{source: collective, op: all_reduce, payload: 1 MB}"
DIMS = "network: {dims: [{shape: switch, npus: 4, bandwidth: 100 GB/s, latency: 1 us}]}"
FILES = {
    "train.yaml": f"workload: {{source: transformer, {LAYER}, global_batch: 8, dp: 2, tp: 2}}\n"
                  f"compute: {{like: h100, model: roofline}}\nmemory: h100\n{DIMS}\n",
    "jobs.yaml": f"workload: {{source: jobs, jobs: [{{name: a, npus: 2, workload: {SUM}}}, {{name: b, npus: 2, "
                 f"workload: {SUM}}}]}}\n{DIMS}\n",
    "packets.yaml": f"workload: {SUM}\n" + DIMS.replace(
        "network: {", "network: {backend: packets, packets: {queues: true}, ") + "\n",
    "one.yaml": "workload: {source: trace, path: linked.0.et}\n" + DIMS.replace("npus: 4", "npus: 1") + "\n"
                "compute: {model: replay, missing: 0 ns}\n",
    "host.json": '{"schema": "1.1.1-chakra.0.0.4", "nodes": [{"id": 2, "name": "aten::mm", "ctrl_deps": 1, "inputs": '
                 '{"values": [[5, 6, 0, 1024, 2, "cuda:0"]], "shapes": [[32, 32]], "types": ["Tensor(c10::Half)"]}, '
                 '"outputs": {"values": [], "shapes": [], "types": []}, "attrs": [{"name": "rf_id", "type": "uint64", '
                 '"value": 7}]}]}',
    "device.json": json.dumps({"traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 20,
         "args": {"Record function id": 7}},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 5, "dur": 5,
         "args": {"correlation": 3}},
        {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 12, "dur": 40,
         "args": {"correlation": 3, "device": 0, "stream": 7}}]}),
    "pair.txt": "2 0 1\n\n0 1 400Gbps 0.0005ms 0\n",
    "infer.yaml": f"workload: {{source: inference, {LAYER}, tp: 2, prompt: 32, generated: 4}}\n"
                  f"compute: {{like: h100, model: roofline}}\nmemory: h100\n{DIMS.replace('npus: 4', 'npus: 2')}\n",
    "chat.yaml": "design: infer.yaml\nrequests: {kind: poisson, rate: 100, count: 40, prompt: 32, output: 4, seed: 0}\n"
                 "objective: {ttft: 1 s}\n",
    "job.sh": "torchrun --nnodes 1 --nproc-per-node 8 pretrain_gpt.py --num-layers 8 --hidden-size 2048 --swiglu "
              "--num-attention-heads 16 --vocab-size 32000 --seq-length 2048 --micro-batch-size 1 --bf16 "
              "--global-batch-size 16 --position-embedding-type rope --hidden-dropout 0 --attention-dropout 0",
    "rows.csv": "source,case,gpu,n_gpus,model,tp,pp,dp,cp,gbs,mbs,seq,precision,step_s,zero,recompute\n"
                "mine,a,h100_sxm,8,llama3-8b,2,1,4,1,32,1,2048,bf16,1.0,1,none\n",
    "log.csv": "arrival,prompt,output,ttft,tpot\n0,32,4,0.01,0.001\n1,32,4,0.01,0.001\n",
}
PLAN = ("plan", "--device", "h100_sxm", "--top", "1")
SERVING = ("plan", "llama3-8b", "--for", "serving", "--device", "H100", "--prompt", "100", "--output", "4")
CHEAP: Sequence[tuple[str, ...]] = (
    ("run", QUICK, "--nodes"), ("run", "train.yaml"), ("run", "infer.yaml"), ("run", "jobs.yaml"),
    ("run", "train.yaml", "infer.yaml"),
    ("run", "train.yaml", "--set", "network.dims[0].fabric=dgx_h100_nvswitch", "--set", "collective.model=measured"),
    ("run", "packets.yaml"), ("serve", CHAT), ("explain", QUICK, "--set", "collective.chunks=4"),
    ("search", "examples/search/network.yaml", "--count"),
    ("search", "examples/search/network.yaml", "--trials", "4", "--study", "a.study"), ("report", "a.study"),
    ("show", QUICK), ("show", "train.yaml", "--workload"), ("show", "examples/fabrics/clos_8.yaml"),
    ("show", "pair.txt"),
    ("show", TRACES), ("list", "device"), ("check", TRACES),
    ("trace", "link", "host.json", "device.json", "-o", "linked"), ("trace", "show", "linked.0.et"),
    ("trace", "diff", "linked", TRACES), ("trace", "suite", "list"), ("trace", "write", "train.yaml", "-o", "w"),
    ("trace", "transform", "w", "-o", "v"), ("trace", "anonymise", "w", "-o", "u", "--seed", "1"),
    ("trace", "collective", "ring", "--op", "all_reduce", "--npus", "4", "--size", "1 MB", "-o", "c"),
)
"""Commands of the default suite."""
DEAR: Sequence[tuple[str, ...]] = (
    ("run", "examples/gpu_overlap/overlap.yaml", "--set", "units=[8]"),
    (*PLAN, "llama3-8b", "--gpus", "8"), (*PLAN, "--from", "job.sh", "--measured", "30%"),
    (*SERVING, "--gpus", "1", "--ttft", "2s", "--tpot", "50ms"),
    ("serve", CHAT, "--find", "rate", "--slo", "ttft_p99=2s"), ("explain", CHAT, "--set", "requests.rate=50"),
    ("search", "examples/search/network.yaml", "--trials", "4", "--seed", "1", "--study", "b.study"),
    ("explain", "a.study", "b.study"), ("validate", "rows.csv"), ("validate", "log.csv", "--serving", CHAT),
    ("calibrate", "log.csv", "--serving", CHAT), ("explain", "one.yaml", "--trace", "linked.0.et"),
)
"""Commands that only the page and the long tests run."""
NOT_RUN = {"astra-sim": "needs the inputs of ASTRA-sim", "trace replay": "needs torch and a process for each rank",
           "trace replay real": "needs torch",
           "trace replay real coverage": "needs torch", "trace synthesise learn": "takes minutes",
           "trace synthesise compare": "takes minutes", "calibrate": "needs timings of kernels",
           "calibrate fabric": "needs logs of nccl-tests"}
"""Formats of which no command is run here, and why."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


UNITS = {"ns": "ns", "bytes": "byte", "flop_per_ns": "FLOP/ns", "gb_per_s": "GB/s", "flops": "FLOP",
         "per_s": "1/s", "ghz": "GHz", "watts": "W", "share": "0 to 1"}
"""End of a name -> unit."""
_UNIT = re.compile(rf"(?:^|.*?_)({'|'.join(UNITS)})(?:_(?:per|with|at)_\w+)?")
OTHERS = _words("ps us ms s sec secs second seconds minutes hours kb mb gb tb kib mib gib hz khz mhz kw mw percent pct "
                   "tflops gflops gbps mbps micros millis nanos")
"""Last words of names in another unit than that of the quantity."""
Fields = dict[str, set[str]]
KINDS = {dict: "object", list: "list", str: "text", bool: "true or false", type(None): "null"}
MADE = "<!-- written by tools/json_formats.py from answers of the commands; do not edit -->\n"
INTRODUCTION = """# JSON

`--json` prints one object. It begins with `format`, such as `plan/1`, and `astrarium`, the version
([what may change](compatibility.md#json)).

**Units.** A quantity has one unit, which the name of a number ends in: times are in ns (with ps as thousandths), sizes
in bytes, bandwidths in GB/s, which are bytes/ns. `_per_...`, `_with_...` and `_at_...` may follow:
`tokens_per_s_per_npu`. All numbers below a name with a unit (`parts_ns`) have that unit. Numbers without one are
counts, ratios or figures.

| end of a name | unit |
|---|---|"""
FIGURE_HEAD = """## Figures

Numbers in `figures`, `objectives` and `value` are figures with their units; a figure may also be next to other fields
(`network_cost`). Figures of serving: latencies such as `ttft_p99` are in ns; of tokens and requests, `cost` is in US
dollars, `energy` in J, `carbon` in kg of CO2.

| figure | what, in which unit |
|---|---|"""


def unit(name: str) -> str:
    """The unit that a name ends in, or nothing."""
    match = _UNIT.fullmatch(name)
    return UNITS[match[1]] if match else ""


def wrong(fields: Mapping[str, object]) -> list[str]:
    """Fields in another unit than that of the quantity."""
    return [path for path in fields if not unit(last(path)) and last(path).rpartition("_")[2] in OTHERS]


def walk(found: Any, fields: Fields, path: str = "") -> None:
    """Add the fields below `path` with the kinds of their values. A table whose names are data (of collectives, knobs,
    streams) is one entry `*`."""
    kind = KINDS.get(type(found), "number")
    if path:
        fields.setdefault(path, set()).add(kind)
    if last(path) in OPAQUE:
        return
    if isinstance(found, dict):
        data = last(path) in DATA or bool(unit(last(path)))
        for name, value in found.items():
            walk(value, fields, f"{path}.{'*' if data else name}".lstrip("."))
    if isinstance(found, list):
        for value in found:
            walk(value, fields, f"{path}[]")


DATA = _words("figures objectives communications collectives streams totals groups by_kind classes median_errors "
              "clocks critical_path scores by_knob by_part trees_without_physics source_in_no_fit conditions")
"""Names of objects whose names are data."""
OPAQUE = _words("design workload metadata from to layout engine")
"""Names of values whose fields are those of files, and of choices."""


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder with the files of the commands, which is the current one."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(ROOT / "examples", folder / "examples")
        for file, text in FILES.items():
            (folder / file).write_text(text, encoding="utf-8")
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(before)


def formats(commands: Sequence[Sequence[str]]) -> dict[str, tuple[str, Fields]]:
    """Format -> (the first command that gives it, its fields), of commands run in `scratch`."""
    from astrarium.cli import main

    found: dict[str, tuple[str, Fields]] = {}
    for command in commands:
        out, talk = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(talk):
            code = main([*command, "--json"])
        if code != 0 and not out.getvalue():
            raise RuntimeError(f"{' '.join(command)}: {talk.getvalue()}")
        answer = json.loads(out.getvalue())
        if list(answer)[:2] != ["format", "astrarium"]:
            raise RuntimeError(f"{' '.join(command)}: begins with {list(answer)[:2]}")
        _, fields = found.setdefault(answer["format"], (" ".join(command), {}))
        walk(answer, fields)
    return found


def page(found: Mapping[str, tuple[str, Fields]]) -> str:
    """docs/reference/json.md."""
    lines = [MADE, INTRODUCTION, *(f"| `...{name}` | {text} |" for name, text in UNITS.items()), "", FIGURE_HEAD,
             *figure_rows(), "", "## Formats", ""]
    for name, (command, fields) in sorted(found.items()):
        lines += [f"### {name}", "", f"`astrarium {command} --json`", "", "| field | value | unit |", "|---|---|---|"]
        lines += [f"| `{path}` | {', '.join(sorted(kinds))} | {unit(last(path))} |" for path, kinds in fields.items()
                  if path not in ("format", "astrarium") and not held(path, kinds, fields)]
        lines.append("")
    lines += ["## Not listed", "", *(f"- `{name}/1`: {why}" for name, why in NOT_RUN.items()), ""]
    return "\n".join(lines)


def last(path: str) -> str:
    """The name at the end of a path."""
    return path.replace("[]", "").rpartition(".")[2]


def held(path: str, kinds: set[str], fields: Fields) -> bool:
    """Whether a field only holds others, which are listed."""
    return kinds <= {"object", "list"} and any(other.startswith((f"{path}.", f"{path}[]")) for other in fields)


def figure_rows() -> Iterator[str]:
    """Name and sentence of every figure, which states its unit."""
    from astrarium.registry.built_in import BUILT_IN

    yield from (f"| `{name}` | {sentence} |" for name, (_, sentence) in BUILT_IN["figure"].items())


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or say that it is old."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is not current")
    check = parser.parse_args(arguments).check
    with scratch():
        made = page(formats([*CHEAP, *DEAR]))
    if check:
        print("" if (same := PAGE.read_text(encoding="utf-8") == made) else "run: python tools/json_formats.py")
        return 0 if same else 1
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
