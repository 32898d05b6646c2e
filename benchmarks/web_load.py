"""Load on the workbench: users who turn knobs at the same time.

    python benchmarks/web_load.py                    # 5 users, 2 changes a second each, for 5 minutes
    python benchmarks/web_load.py --users 1 --seconds 60

It starts a server over a new folder with a planned design (LLaMA-3 8B on 64 H100), and lets every user turn knobs of it
at random. It prints errors and percentiles of the time from a change to its answer, and fails where a request failed or
where the 95th percentile is above `--most`.
"""

from __future__ import annotations

import argparse
import html
import http.client
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import quote

SLOWEST = {1: 0.3}      # seconds of the 95th percentile by users; more users: a second


class User(threading.Thread):
    """One who loads the page, then turns a knob every half second."""

    def __init__(self, port: int, design: str, seed: int, until: float, rate: float):
        super().__init__(daemon=True)
        self.port, self.design, self.until, self.rate = port, design, until, rate
        self.draw = random.Random(seed)
        self.times: list[float] = []
        self.refused, self.errors = 0, list[str]()
        self.client = f"user{seed}"

    def run(self) -> None:
        """Turn knobs until the time is over."""
        wire = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        cookie, knobs = self._page(wire)
        next_at = time.monotonic() + self.draw.random() / self.rate
        sets: dict[str, str] = {}
        while next_at < self.until:
            time.sleep(max(0.0, next_at - time.monotonic()))
            next_at = max(next_at + 1 / self.rate, time.monotonic())
            path = self.draw.choice(sorted(knobs))
            sets[path] = self.draw.choice(knobs[path])
            if len(sets) > 4:
                del sets[next(iter(sets))]
            query = "".join(f"&set={quote(f'{name}={value}')}" for name, value in sets.items())
            begun = time.perf_counter()
            try:
                wire.request("GET", f"/api/answer?design={quote(self.design)}&client={self.client}{query}",
                             headers={"Cookie": cookie})
                answer = wire.getresponse()
                found = json.loads(answer.read())
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.errors.append(repr(error))
                wire.close()
                continue
            self.times.append(time.perf_counter() - begun)
            if answer.status != 200:
                self.errors.append(f"{answer.status} {found}")
            elif "error" in found:
                self.refused += 1
                sets.pop(path)

    def _page(self, wire: http.client.HTTPConnection) -> tuple[str, dict[str, list[str]]]:
        """The session's cookie, and the sliders that people turn first, with their values."""
        wire.request("GET", f"/design/{quote(self.design)}")
        answer = wire.getresponse()
        cookie = (answer.getheader("Set-Cookie") or "").partition(";")[0]
        page = answer.read().decode()
        usual = page[page.index('id="usual"'):page.index("<details")]
        found = re.findall(r'data-values="([^"]+)" aria-label="([^"]+)"', usual)
        return cookie, {name: html.unescape(values).split("|") for values, name in found}


def main() -> int:
    """Measure; 0 where everything is within the limits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=5)
    parser.add_argument("--rate", type=float, default=2.0, help="changes a second of every user")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--most", type=float, help="seconds that the 95th percentile may be")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        design = Path(folder) / "design.yaml"
        words = ["plan", "llama3-8b", "--device", "h100_sxm", "--gpus", "64", "-o", str(design)]
        subprocess.run([sys.executable, "-m", "astrarium", *words], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        server = subprocess.Popen([sys.executable, "-m", "astrarium", "web", "--folder", folder, "--port", "0"],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert server.stdout is not None
            port = int(re.findall(r":(\d+)/", server.stdout.readline())[0])
            load = os.getloadavg()
            users = [User(port, design.name, seed, time.monotonic() + options.seconds, options.rate)
                     for seed in range(options.users)]
            for each in users:
                each.start()
            for each in users:
                each.join()
        finally:
            server.terminate()
            server.wait(30)
    return _said(users, options, load)


def _said(users: list[User], options: argparse.Namespace, load: tuple[float, float, float]) -> int:
    times = sorted(each for user in users for each in user.times)
    errors = [each for user in users for each in user.errors]
    refused = sum(user.refused for user in users)
    most = options.most or SLOWEST.get(options.users, 1.0)
    p50, p95, p99 = (times[min(len(times) - 1, int(share * len(times)))] for share in (0.5, 0.95, 0.99))
    print(f"{options.users} users, {len(times):,} changes in {options.seconds:g} s, {refused:,} of them refused by the "
          f"model; {len(errors)} errors\np50 {1000 * p50:.0f} ms, p95 {1000 * p95:.0f} ms (limit {1000 * most:.0f}), "
          f"p99 {1000 * p99:.0f} ms, longest {1000 * times[-1]:.0f} ms; load before "
          f"{load[0]:.2f}, after {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores")
    for each in errors[:5]:
        print(each)
    return int(bool(errors) or p95 > most)


if __name__ == "__main__":
    sys.exit(main())
