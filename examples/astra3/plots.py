"""Draw three figures as SVG: python plots.py FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

from msgspec.structs import replace
from study import GPU, MIB, SIZES, us

from astrarium import CommOp
from astrarium.gpu import Kernels, kernel_launch, run_launch
from astrarium.report.plot.colours import ranked
from astrarium.report.plot.plot import Axis, Column, Layer, Plot
from astrarium.report.plot.svg import svg_file

Series = tuple[str, list[float], list[float]]       # its name, x, y


def drawn(title: str, series: list[Series], x: Axis, y: Axis) -> str:
    """Lines, a colour each."""
    names = [name for name, along, _ in series for _ in along]
    columns = {"colour": Column("", names),
               "x": Column(x.title, [at for _, along, _ in series for at in along], x.quantity),
               "y": Column(y.title, [value for _, _, values in series for value in values], y.quantity)}
    return svg_file(Plot(title, f"{y.title} over {x.title}.", (Layer("line", columns),), x, y, ranked(names)))


def protocols() -> str:
    """Time of an all_gather on 8 GPUs by its size, at 1 TiB/s."""
    sizes = SIZES[1:-2:2]
    series = []
    for latency in ("0.5 us", "5 us"):
        for protocol in ("simple", "ll"):
            gpu, kernels = replace(GPU, link_latency=latency, fence="2 us"), Kernels(
                protocol=protocol, workgroups=128, wavefronts=4)
            series.append((f"{protocol}, {latency}", [float(size) for size in sizes],
                           [1e3 * us(CommOp.ALL_GATHER, size, 8, gpu, kernels) for size in sizes]))
    return drawn("all_gather on 8 GPUs", series, Axis("size", "bytes", log=True), Axis("time", "time", log=True))


def outstanding() -> str:
    """Time of an all_gather on 32 GPUs by the requests that a unit may have outstanding."""
    limits = [32, 64, 128, 256, 512]
    series = [(f"{size / MIB:g} MiB", [float(most) for most in limits],
               [1e3 * us(CommOp.ALL_GATHER, size, 32, replace(GPU, outstanding_unit=most),
                         Kernels(workgroups=32, wavefronts=4)) for most in limits])
              for size in (MIB // 8, 4 * MIB, 32 * MIB)]
    return drawn("all_gather on 32 GPUs", series, Axis("outstanding requests of a unit", "count", log=True),
                 Axis("time", "time", log=True))


def ports() -> str:
    """Use of the ports of one GPU over time, in bins of 0.5 us: an all_gather of 4 MiB on 8 GPUs."""
    width, series = 500_000, list[Series]()
    for protocol in ("simple", "ll"):
        launch = kernel_launch(CommOp.ALL_GATHER, 4 * MIB, 8, GPU, Kernels(protocol=protocol, workgroups=128,
                                                                       wavefronts=4))
        recorded = run_launch(launch, record=width).recorded
        assert recorded is not None
        use = [*(recorded.port_busy[0].mean(axis=0) / width).tolist(), 0.0]
        series.append((protocol, [at * width / 1e3 for at in range(len(use))], use))
    return drawn("Ports of one GPU", series, Axis("time", "time"), Axis("use of the ports' rate", "share"))


def main() -> None:
    """Write them."""
    folder = Path(sys.argv[1])
    for name, draw in (("protocols", protocols), ("outstanding", outstanding), ("ports", ports)):
        (folder / f"astra3_{name}.svg").write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
