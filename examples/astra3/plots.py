"""Draw three figures as SVG: python plots.py FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

from msgspec.structs import replace
from study import GPU, MIB, SIZES, us

from astrarium import CommOp
from astrarium.gpu import Kernels, kernel_launch, run_launch
from astrarium.report.svg.charts import Band, lines


def line(name: str, x: list[float], y: list[float]) -> Band:
    """A line without a band."""
    return Band(name, x, y, y, y)


def protocols() -> str:
    """Time of an all_gather on 8 GPUs by its size, at 1 TiB/s."""
    sizes = SIZES[1:-2:2]
    bands = []
    for latency in ("0.5 us", "5 us"):
        for protocol in ("simple", "ll"):
            gpu, kernels = replace(GPU, link_latency=latency, fence="2 us"), Kernels(
                protocol=protocol, workgroups=128, wavefronts=4)
            bands.append(line(f"{protocol}, {latency}", [size / 1024 for size in sizes],
                              [us(CommOp.ALL_GATHER, size, 8, gpu, kernels) for size in sizes]))
    return lines(bands, "all_gather on 8 GPUs, KiB", "us")


def outstanding() -> str:
    """Time of an all_gather on 32 GPUs by the requests that a unit may have outstanding."""
    limits = [32, 64, 128, 256, 512]
    bands = [line(f"{size / MIB:g} MiB", [float(most) for most in limits],
                  [us(CommOp.ALL_GATHER, size, 32, replace(GPU, outstanding_unit=most),
                      Kernels(workgroups=32, wavefronts=4)) for most in limits])
             for size in (MIB // 8, 4 * MIB, 32 * MIB)]
    return lines(bands, "outstanding requests of a unit", "us")


def ports() -> str:
    """Use of the ports of one GPU over time, in bins of 0.5 us: an all_gather of 4 MiB on 8 GPUs."""
    width, bands = 500_000, []
    for protocol in ("simple", "ll"):
        launch = kernel_launch(CommOp.ALL_GATHER, 4 * MIB, 8, GPU, Kernels(protocol=protocol, workgroups=128,
                                                                       wavefronts=4))
        recorded = run_launch(launch, record=width).recorded
        assert recorded is not None
        use = [*(100 * recorded.port_busy[0].mean(axis=0) / width).tolist(), 0.0]
        bands.append(line(protocol, [i * width / 1e6 for i in range(len(use))], use))
    return lines(bands, "us", "% of the ports' rate")


def main() -> None:
    """Write them."""
    folder = Path(sys.argv[1])
    for name, draw in (("protocols", protocols), ("outstanding", outstanding), ("ports", ports)):
        drawn = draw().replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
        (folder / f"astra3_{name}.svg").write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
