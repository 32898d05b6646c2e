"""A folder with a small input of every kind that the command line takes."""

from __future__ import annotations

import json
from pathlib import Path

from astrarium.cli import main
from astrarium.trace import TraceBuilder
from astrarium.vocab import CommOp

RING = "network: {dims: [{shape: ring, npus: 4, bandwidth: 50 GB/s, latency: 500 ns}]}\n"
SMALL = "family: decoder, layers: 2, d_model: 128, heads: 4, ffn: 256, vocab: 512, seq: 64"
ROOF = "compute: {model: roofline, peak: 100 TFLOP/s}\nmemory: {bandwidth: 1 TB/s, capacity: 80 GB}\n"
TRAINED = f"{{source: transformer, global_batch: 4, dp: 4, model: {{{SMALL}}}}}"
FILES = {
    "one.yaml": "workload: {source: collective, op: all_reduce, payload: 1 MB}\n" + RING,
    "other.yaml": "workload: {source: collective, op: all_reduce, payload: 2 MB}\n" + RING,
    "train.yaml": f"workload: {TRAINED}\n" + RING + ROOF,
    "design.yaml": "workload: {source: trace, path: et/w.*.et}\n" + RING,
    "jobs.yaml": "workload: {source: jobs, jobs: [{name: a, workload: {source: collective, op: all_reduce, payload: "
                 "1 MB}, npus: [0, 1]}, {name: b, workload: {source: collective, op: all_gather, payload: 1 MB}, "
                 "npus: [2, 3]}]}\n" + RING,
    "overlap.yaml": "gpu: {like: h100_sxm, units: 2}\ngpus: 2\ngemm: {m: 64, n: 64, k: 64, peak: 30 TFLOP/s}\n"
                    "op: all_gather\npayload: 2 KiB\nkernels: [{workgroups: 1, protocol: ll}]\nunits: [1]\n",
    "served.yaml": f"workload: {{source: inference, tp: 4, batch: 1, prompt: 32, generated: 4, model: {{{SMALL}}}}}\n"
                   + RING + ROOF,
    "serving.yaml": "design: served.yaml\n"
                    "requests: {kind: poisson, rate: 100, count: 3, seed: 1, prompt: 32, output: 4}\n",
    "space.yaml": "base: one.yaml\nchoices:\n  collective.chunks: [1, 2, 4]\n  network.dims[0].shape: [ring, switch]\n",
    "launch.sh": "torchrun --nnodes 1 --nproc-per-node 2 pretrain_gpt.py --num-layers 4 --hidden-size 1024 "
                 "--num-attention-heads 16 --vocab-size 32000 --seq-length 1024 --micro-batch-size 1 --bf16 "
                 "--global-batch-size 8 --tensor-model-parallel-size 2 --position-embedding-type rope "
                 "--hidden-dropout 0 --attention-dropout 0 "
                 "--lr 1",
    "rows.csv": "source,case,gpu,n_gpus,model,tp,pp,dp,gbs,step_s\nme,a,h100_sxm,2,gpt2-small,1,1,2,8,0.1\n",
    "t.csv": "kind,m,n,k,ns\n" + "".join(f"gemm,{m},4096,4096,{m * 60}\n" for m in range(1024, 4096, 512)),
    "all_reduce_perf.log": "".join(f"#  Rank {n:2d} Group  0 Pid 9 on node device {n} [0x{n}] NVIDIA\n"
                                   for n in range(8)) + "#  size count type redop root time algbw busbw #wrong\n"
                + "".join(f"{2**n} {2**n // 4} float sum -1 {60 + 2**n / 40e3:.2f} 1 1 0\n" for n in range(10, 31)),
    "text.txt": "HYBRID_TRANSFORMER model_parallel_NPU_group: 2\n1\n"
                "Q1 -1 3000 ALLREDUCE 8388608 2000 ALLREDUCE 8388608 2500 ALLREDUCE 33554432 10\n",
    "host.xml": '<system version="1"><cpu host_hash="0x1" numaid="0" affinity="ff" arch="arm64">\n'
                + "".join(f'<pci busid="000{n}:06:00.0" class="0x030200" vendor="0x10de" device="0x31c2" link_speed='
                          f'"32.0 GT/s PCIe" link_width="16"><gpu dev="{n}" sm="103" rank="{n}" gdr="1"><nvlink '
                          'target="fffffff:ff:ff.0" count="18" tclass="0x068000"/></gpu></pci>\n' for n in range(2))
                + "</cpu></system>\n",
    "mine.toml": "", "my_plugins.py": "PLUGINS = {}",
    "ranks.json": '{"0": [0, 1, 2, 3]}',
    "system.json": '{"scheduling-policy": "LIFO", "endpoint-delay": 10, "active-chunks-per-dimension": 1, '
                   '"preferred-dataset-splits": 2, "all-reduce-implementation": ["ring"], '
                   '"all-gather-implementation": ["ring"], "collective-optimization": "baseline", "local-mem-bw": 50}',
    "network.yml": "topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n",
    "memory.json": '{"memory-type": "NO_MEMORY_EXPANSION"}',
}
HOST = {"schema": "1.1.1-chakra.0.0.4", "nodes": [
    {"id": 2, "name": "aten::mm", "ctrl_deps": 1, "inputs": {"values": [], "shapes": [], "types": []},
     "outputs": {"values": [], "shapes": [], "types": []},
     "attrs": [{"name": "rf_id", "type": "uint64", "value": 5}]}]}
DEVICE = {"traceEvents": [
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 20,
     "args": {"Record function id": 5}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 5, "dur": 5,
     "args": {"correlation": 3}},
    {"ph": "X", "cat": "kernel", "name": "sgemm", "pid": 0, "tid": 7, "ts": 12, "dur": 40,
     "args": {"correlation": 3, "stream": 7, "device": 0}}]}


def write_inputs(folder: Path) -> None:
    """Everything, in the current folder `folder`."""
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "host.json").write_text(json.dumps(HOST))
    (folder / "device.json").write_text(json.dumps(DEVICE))
    (folder / "et").mkdir()
    for rank in range(4):
        trace = TraceBuilder()
        last = trace.comp("forward", 50, num_ops=10**6, tensor_size=10**3)
        last = trace.coll("gradients", CommOp.ALL_REDUCE, 1 << 20, after=[last], duration=40)
        trace.comp("update" if rank else "write", 3 + rank, after=[last])
        trace.write(folder / "et" / f"w.{rank}.et")
    for command in ("search space.yaml --trials 6 --agent random --study s.study",
                    "search space.yaml --trials 6 --agent random --seed 1 --study t.study",
                    "report s.study --bundle s.zip", "convert --to jsonl et/w.0.et -o w.jsonl",
                    "trace collective kernel:all_pairs --op all_reduce --npus 4 -o p.xml"):
        assert main(command.split()) == 0, command
