"""An MSCCL program as XML text: the other way round of `parse_msccl`."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import quoteattr

from astrarium.gpu.msccl.xml import Algo, Gpu

__all__ = ["algo_xml"]


def algo_xml(algo: Algo) -> bytes:
    """The file of `algo`."""
    channels = 1 + max((block.channel for gpu in algo.gpus for block in gpu.blocks), default=0)
    head = (f'<algo name={quoteattr(algo.name)} proto="{algo.protocol}" nchannels="{channels}" '
            f'nchunksperloop="{algo.chunks}" ngpus="{len(algo.gpus)}" coll="{algo.coll}" '
            f'inplace="{int(algo.inplace)}">')
    return "\n".join([head, *(line for gpu in algo.gpus for line in _gpu(gpu)), "</algo>", ""]).encode()


def _gpu(gpu: Gpu) -> Iterator[str]:
    awaited = {step.depends for block in gpu.blocks for step in block.steps}
    chunks = " ".join(f'{kind}_chunks="{gpu.chunks[kind]}"' for kind in "ios")
    yield f'  <gpu id="{gpu.id}" {chunks}>'
    for block in gpu.blocks:
        yield f'    <tb id="{block.id}" send="{block.send}" recv="{block.recv}" chan="{block.channel}">'
        for at, step in enumerate(block.steps):
            other, upto = (-1, -1) if step.depends is None else step.depends
            yield (f'      <step s="{at}" type="{step.type}" srcbuf="{step.source[0]}" srcoff="{step.source[1]}" '
                   f'dstbuf="{step.target[0]}" dstoff="{step.target[1]}" cnt="{step.count}" depid="{other}" '
                   f'deps="{upto}" hasdep="{int((block.id, at) in awaited)}"/>')
        yield "    </tb>"
    yield "  </gpu>"
