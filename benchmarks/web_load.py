"""Load on the workbench: users who turn knobs at the same time.

    python benchmarks/web_load.py                    # 5 users, 2 changes a second each, for 5 minutes
    python benchmarks/web_load.py --users 1 --seconds 60

It starts a server over a new folder with a planned design (LLaMA-3 8B on 64 H100). Every user turns the knobs that the
page shows first, each by up to `--steps` steps of its slider from where the design has it. As in a browser, a change that
comes before the answer to the one before replaces it. The time of a change ends with the first answer to it or to a
later one: that is how long the page shows something old. The program prints errors and percentiles of these times, those
of refusals (which are quick) left out, and fails where a request failed or where the 95th percentile is above `--most`.
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

    def __init__(self, port: int, design: str, seed: int, options: argparse.Namespace):
        super().__init__(daemon=True)
        self.port, self.design, self.options, self.draw = port, design, options, random.Random(seed)
        self.client = f"user{seed}"
        self.times: list[float] = []
        self.waiting: list[float] = []      # when changes were made that nothing answered yet
        self.refused, self.replaced, self.errors = 0, 0, list[str]()
        self.lock = threading.Lock()

    def run(self) -> None:
        """Turn knobs until the time is over, then wait for the last answer."""
        wire = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        cookie, knobs = self._page(wire)
        sets: dict[str, str] = {}
        asked = list[threading.Thread]()
        begun = time.monotonic() + self.draw.random() / self.options.rate
        for number in range(int(self.options.seconds * self.options.rate)):
            time.sleep(max(0.0, begun + number / self.options.rate - time.monotonic()))
            path = self.draw.choice(sorted(knobs))
            values, at = knobs[path]
            at += self.draw.randint(-self.options.steps, self.options.steps)
            sets[path] = values[min(max(at, 0), len(values) - 1)]
            if len(sets) > 3:
                del sets[next(iter(sets))]
            asked.append(threading.Thread(target=self._ask, args=(cookie, dict(sets))))
            asked[-1].start()
        for each in asked:
            each.join()

    def _ask(self, cookie: str, sets: dict[str, str]) -> None:
        made = time.monotonic()
        with self.lock:
            self.waiting.append(made)
        query = "".join(f"&set={quote(f'{name}={value}')}" for name, value in sets.items())
        wire = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            wire.request("GET", f"/api/answer?design={quote(self.design)}&client={self.client}{query}",
                         headers={"Cookie": cookie})
            answer = wire.getresponse()
            found = json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.errors.append(repr(error))
            return
        finally:
            wire.close()
        if answer.status != 200:
            self.errors.append(f"{answer.status} {found}")
        elif "replaced" in found:
            self.replaced += 1
        else:
            self.refused += "error" in found
            now = time.monotonic()
            with self.lock:
                self.times += [now - each for each in self.waiting if each <= made and "error" not in found]
                self.waiting = [each for each in self.waiting if each > made]

    def _page(self, wire: http.client.HTTPConnection) -> tuple[str, dict[str, tuple[list[str], int]]]:
        """The session's cookie, and the sliders that people turn first, with their values and where they are."""
        wire.request("GET", f"/design/{quote(self.design)}")
        answer = wire.getresponse()
        cookie = (answer.getheader("Set-Cookie") or "").partition(";")[0]
        page = answer.read().decode()
        usual = page[page.index('id="usual"'):page.index("<details")]
        found = re.findall(r'value="(\d+)" data-values="([^"]+)" aria-label="([^"]+)"', usual)
        return cookie, {name: (html.unescape(values).split("|"), int(at)) for at, values, name in found}


def main() -> int:
    """Measure; 0 where everything is within the limits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=5)
    parser.add_argument("--rate", type=float, default=2.0, help="changes a second of every user")
    parser.add_argument("--steps", type=int, default=3, help="steps of a slider from where the design has it")
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
            users = [User(port, design.name, seed, options) for seed in range(options.users)]
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
    replaced = sum(user.replaced for user in users)
    print(f"{options.users} users, {int(options.seconds * options.rate) * options.users:,} changes in {options.seconds:g} "
          f"s: {replaced:,} replaced by the next, {refused:,} refused by the model, {len(errors)} errors\n"
          f"{len(times):,} answered: p50 {1000 * p50:.0f} ms, p95 {1000 * p95:.0f} ms (limit {1000 * most:.0f}), "
          f"p99 {1000 * p99:.0f} ms, longest {1000 * times[-1]:.0f} ms\n"
          f"load before {load[0]:.2f}, after {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores")
    for each in errors[:5]:
        print(each)
    return int(bool(errors) or p95 > most)


if __name__ == "__main__":
    sys.exit(main())
