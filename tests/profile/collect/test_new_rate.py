"""A step recorded at one link rate predicts its time at another: two network namespaces with `veth` and `tbf`.

Needs root, `ip` and `tc`; skips, and says why, where they are not there or not permitted.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import statistics
import subprocess

import pytest

from astrarium.compute.config import Replay
from astrarium.design import Design
from astrarium.memory.config import Memory
from astrarium.network.config import Network, Switch
from astrarium.simulate import simulate
from astrarium.system.config import System
from astrarium.workload.config import Trace

from .ranks import run_ranks

pytest.importorskip("torch", reason='collecting needs PyTorch: pip install "astrarium[torch]"')
pytestmark = pytest.mark.exam

ROUNDS = 5
PAYLOAD = 1448 / 1514       # of an Ethernet frame of 1,500 bytes: TCP with time stamps (RFC 7323), as Linux sends it
LATENCY = "50 us"           # of a message through gloo's TCP on one machine; a bucket takes hundreds of ms

STEP = """
import json, os, subprocess, time, torch, torch.distributed as dist
from astrarium.profile import collect
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, link = dist.get_rank(), os.environ["GLOO_SOCKET_IFNAME"]
model = torch.nn.parallel.DistributedDataParallel(
    torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(12)]), bucket_cap_mb=4)
optimizer, x = torch.optim.SGD(model.parameters(), lr=0.01), torch.randn(16, 512)
def step():
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
def at(rate):
    words = f"tc qdisc replace dev {link} root tbf rate {rate}mbit burst 128kb latency 200ms"
    subprocess.run(words.split(), check=True)
    step()
    dist.barrier()
took = {}
at(%(first)d)
for number in range(%(rounds)d):
    for rate in (%(first)d, %(second)d):
        at(rate)
        with collect(f"rate{rate}.{number}") as recording:
            begin = time.perf_counter()
            step()
            took.setdefault(rate, []).append(time.perf_counter() - begin)
json.dump(took, open(f"times.{rank}.json", "w"))
dist.destroy_process_group()
"""


def command(*words: str) -> None:
    found = subprocess.run(words, capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip(f"{' '.join(words)}: {found.stderr.strip()}")


@pytest.fixture
def namespaces():
    """Two network namespaces with a veth pair between them: (name, device) of each."""
    for tool in ("ip", "tc"):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool} on this machine")
    mark = secrets.token_hex(3)
    names = [(f"ar{mark}{side}", f"v{mark}{side}") for side in "ab"]
    try:
        for name, _ in names:
            command("ip", "netns", "add", name)
        command("ip", "link", "add", names[0][1], "type", "veth", "peer", "name", names[1][1])
        for number, (name, device) in enumerate(names, 1):
            command("ip", "link", "set", device, "netns", name)
            inside = ("ip", "netns", "exec", name)
            command(*inside, "ip", "addr", "add", f"10.98.7.{number}/24", "dev", device)
            command(*inside, "ip", "link", "set", "lo", "up")
            command(*inside, "ip", "link", "set", device, "up")
            command(*inside, "tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", "400mbit", "burst",
                    "128kb", "latency", "200ms")
        yield names
    finally:
        for name, _ in names:
            with contextlib.suppress(OSError):
                subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def predicted(prefix: str, rate: int) -> float:
    """Step time in seconds of recorded traces on a link of `rate` Mbit/s."""
    link = Switch(2, bandwidth=f"{rate / 8 * PAYLOAD} MB/s", latency=LATENCY)
    system = System(compute_streams=64, comm_streams=64, p2p_streams=64, copy_streams=64, cpu_threads=64)
    design = Design(workload=Trace(prefix), compute=Replay(missing="0 ns"), memory=Memory(), network=Network([link]),
                    system=system)
    return simulate(design).makespan / 1e9


@pytest.mark.parametrize(("first", "second"), [(400, 200), (200, 400)])
def test_another_rate(tmp_path, namespaces, record_property, first, second):
    """Rounds at both rates take turns, so both meet the same load of the machine; medians are compared."""
    cores, load = os.cpu_count() or 1, os.getloadavg()[0]
    if load > cores:
        pytest.skip(f"wall times of two processes need idle cores: {cores} cores, load {load:.1f}")
    inside = tuple(("ip", "netns", "exec", name) for name, _ in namespaces)
    more = {rank: {"GLOO_SOCKET_IFNAME": device} for rank, (_, device) in enumerate(namespaces)}
    told = run_ranks(STEP % {"first": first, "second": second, "rounds": ROUNDS}, tmp_path, 2, address="10.98.7.1",
                     before=inside, more=more)
    measured = {rate: statistics.median(map(max, *(each[str(rate)] for each in told))) for rate in (first, second)}
    forecast = statistics.median(predicted(str(tmp_path / f"rate{first}.{number}" / "trace"), second)
                                 for number in range(ROUNDS))
    error = forecast / measured[second] - 1
    text = (f"{first} -> {second} Mbit/s: measured {measured[first] * 1e3:.1f} -> {measured[second] * 1e3:.1f} ms, "
            f"predicted {forecast * 1e3:.1f} ms, {error:+.1%}")
    record_property("rate", text)
    print(text)
    assert measured[first] / measured[second] - 1 > 0.3 or measured[second] / measured[first] - 1 > 0.3
    assert abs(error) < 0.10
