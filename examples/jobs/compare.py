"""Two training jobs on one torus by placement: together, and each as if it had the machine to itself."""

from __future__ import annotations

import astrarium as ar

PLACEMENTS: dict[str, dict[str, object]] = {
    "packed": {},
    "spread": {"placement": "spread"},
    "random": {"placement": "random", "seed": 1},
}


def main() -> None:
    base = ar.load_design("examples/jobs/two_jobs.yaml")
    print(f"{'placement':9}  {'job':4}  {'alone':>8}  {'together':>8}  slowdown")
    for name, fields in PLACEMENTS.items():
        changes = {f"workload.jobs[{job}].{field}": value for job in (0, 1) for field, value in fields.items()}
        for job in ar.simulate(ar.replace_all(base, changes)).jobs:
            print(f"{name:9}  {job.name:4}  {job.alone!s:>8}  {job.makespan!s:>8}  {job.slowdown:.2f}x")


if __name__ == "__main__":
    main()
