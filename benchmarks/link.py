"""Linking and converting a large pair of profiler traces: CPU seconds and peak memory of one process.

usage: link.py [HOST DEVICE] [--times 12]

HOST and DEVICE are a real pair (json or gz); left out: the ResNet-50 pair of the reference folder (ASTRARIUM_SHARED, or
`shared` next to the checkout), if it is there. The pair is repeated: ids, correlation ids and times are shifted, so
that the large pair is a run of so many times the steps. Prints the size of the large pair, what `astrarium trace link`
takes for it, and its replayed time beside the measured one.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from _measure import child, machine

Json = dict[str, Any]
SHIFTED_ARGS = ("External id", "Record function id", "correlation", "Ev Idx", "wait_on_cuda_event_record_corr_id")


def load(path: str) -> Json:
    """A JSON file, plain or gzip."""
    data = Path(path).read_bytes()
    found: Json = json.loads(gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data)
    return found


def repeated_host(host: Json, times: int) -> Json:
    """The host trace `times` over. The root stays one node; ids and rf_ids count on."""
    step = max(node["id"] for node in host["nodes"]) + 1
    ids = 1 + max(_attr(node, "rf_id") for node in host["nodes"])
    nodes = list(host["nodes"])
    for turn in range(1, times):
        for node in host["nodes"]:
            if node["id"] == 1:
                continue
            attrs = [{**attr, "value": attr["value"] + turn * ids}
                     if attr["name"] == "rf_id" and attr["value"] else attr for attr in node["attrs"]]
            parent = node["ctrl_deps"] if node["ctrl_deps"] == 1 else node["ctrl_deps"] + turn * step
            nodes.append({**node, "id": node["id"] + turn * step, "ctrl_deps": parent, "attrs": attrs})
    return {**host, "nodes": nodes}


def _attr(node: Json, name: str) -> int:
    return next((int(attr["value"]) for attr in node["attrs"] if attr["name"] == name), 0)


def repeated_device(device: Json, host: Json, times: int) -> Json:
    """The device trace `times` over, one run after the other."""
    events = device["traceEvents"]
    timed = [event for event in events if event.get("ph") == "X" and event.get("cat") != "Trace"]
    length = max(event["ts"] + event["dur"] for event in timed) - min(event["ts"] for event in timed)
    records = 1 + max(_attr(node, "rf_id") for node in host["nodes"])
    step = 1 + max(int(event.get("args", {}).get(name, 0)) for event in timed for name in SHIFTED_ARGS)
    out = list(events)
    for turn in range(1, times):
        for event in events:
            if event.get("ph") == "M":
                out.append(event)
                continue
            args = {name: value + turn * (records if name == "Record function id" else step)
                    if name in SHIFTED_ARGS and isinstance(value, int) else value
                    for name, value in event.get("args", {}).items()}
            more = {"args": args} if args else {}
            if "id" in event:
                more["id"] = event["id"] + turn * step
            out.append({**event, "ts": event["ts"] + turn * length, **more})
    return {**device, "traceEvents": out}


def main() -> None:
    """Make the large pair, link it in a new process, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    traces = Path(os.environ.get("ASTRARIUM_SHARED") or Path(__file__).parents[2] / "shared") / "traces"
    parser.add_argument("host", nargs="?", default=str(traces / "resnet_host.json.gz"))
    parser.add_argument("device", nargs="?", default=str(traces / "resnet_device.json.gz"))
    parser.add_argument("--times", type=int, default=12)
    options = parser.parse_args()
    if not Path(options.host).is_file():
        print(f"no pair to link: {options.host} does not exist")
        return
    host, device = load(options.host), load(options.device)
    with tempfile.TemporaryDirectory() as folder:
        paths = Path(folder) / "host.json", Path(folder) / "device.json"
        paths[0].write_text(json.dumps(repeated_host(host, options.times)))
        paths[1].write_text(json.dumps(repeated_device(device, host, options.times)))
        del host, device
        text, seconds, peak = child([sys.executable, "-m", "astrarium", "trace", "link", *map(str, paths), "-o",
                                     str(Path(folder) / "big"), "--json"])
        report = json.loads(text)
        size = Path(report["path"]).stat().st_size
    print(machine())
    print(f"{options.times} times: {report['host_nodes']:,} host nodes, {report['operators']:,} operators, "
          f"{report['gpu_operations']:,} GPU operations -> {report['nodes']:,} nodes, {size / 1e6:.0f} MB")
    print(f"link + convert: {seconds:.2f} CPU s, {peak:.0f} MB (target: 12 s, 700 MB for 12 times)")
    print(f"measured {report['measured_us'] / 1000:.1f} ms, replayed {report['replayed_us'] / 1000:.1f} ms")


if __name__ == "__main__":
    main()
