"""STAGE's own command line: its flags as a Stage, or as the honest model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from astrarium import config
from astrarium.errors import InputError, nearest
from astrarium.workload.model.decoder import Decoder
from astrarium.workload.model.experts import Experts
from astrarium.workload.stage.config import Stage
from astrarium.workload.stage.names import DENSE, EXPERTS, FLAGS, IGNORED, NUMBERS, TRUE, TRUTHS
from astrarium.workload.transformer import Transformer

__all__ = ["StageCommand", "from_stage_flags", "stage_command"]

class StageCommand(Struct, frozen=True):
    """A call of main.py. `prefix` is where `<prefix>.<rank>.et` go, `groups` the file of the groups, `ignored` flags
    that were given and that STAGE does not look at."""

    work: Stage
    prefix: str
    groups: str
    ignored: tuple[str, ...]


def stage_command(given: Mapping[str, str]) -> StageCommand:
    """Flag (without dashes) -> its text. Raises InputError for what is not reproduced: model_type `debug`,
    `mixed_precision`, and an output_name that is not `name` or `name.%d.et`."""
    for name in ("output_dir", "output_name"):
        if name not in given:
            raise InputError(f"--{name}", "is missing", expected="as for STAGE's main.py")
    stem = given["output_name"].removesuffix(".%d.et")
    if "%" in stem or not stem:
        raise InputError("--output_name", repr(given["output_name"]), expected="a name, or a name that ends in .%d.et")
    prefix = f"{given['output_dir'] or '.'}/{stem}"
    work = _stage(given)
    without = IGNORED if work.experts is not None else (*EXPERTS, *IGNORED)
    return StageCommand(work, prefix, f"{prefix}.json", tuple(f"--{name}" for name in without if name in given))


def _stage(given: Mapping[str, str]) -> Stage:
    model = given.get("model_type", "dense")
    if model not in (*DENSE, "moe"):
        raise InputError("--model_type", f"{model!r} is not reproduced", expected=f"one of {', '.join(DENSE)}, moe")
    if given.get("mixed_precision", "false").lower() in TRUE:
        raise InputError("--mixed_precision", "true is not reproduced", expected="false")
    wanted = (*NUMBERS, *EXPERTS) if model == "moe" else NUMBERS
    numbers = {"experts": 8} if model == "moe" else {}
    numbers.update({name: _number(name, given[name]) for name in wanted if name in given})
    if numbers.get("micro_batch") == -1:
        del numbers["micro_batch"]
    for name, number in numbers.items():
        if number < 1:
            raise InputError(f"--{name}", str(number), expected="a whole number above 0")
    truths = {name: given[name].lower() in TRUE for name in TRUTHS if name in given}
    return config.replace_all(Stage(), {**numbers, **truths})


def _pairs(arguments: Sequence[str]) -> Mapping[str, str]:
    """`--name value` or `--name=value`."""
    found: dict[str, str] = {}
    rest = iter(arguments)
    for word in rest:
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or name not in FLAGS:
            raise InputError(word[:60], "is not a flag of STAGE's main.py", did_you_mean=nearest(name, FLAGS))
        found[name] = value if equals else next(rest, "")
        if not found[name]:
            raise InputError(f"--{name}", "has no value")
    return found


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InputError(f"--{name}", repr(text[:40]), expected="a whole number") from None


def from_stage_flags(arguments: Sequence[str]) -> Transformer:
    """The model that these flags mean, in bytes and with all its operations: what `source: transformer` runs.

    Heads and recomputation, which STAGE ignores, count here. `sp` is the axis of its own that gathers keys and values;
    weights are sharded over dp (zero: 3) where `weight_sharded` is set. Ranks that divide the experts are replicas for
    the rest of the model, where in STAGE they all do the same. Raises InputError as `stage_command`, for flags that
    main.py does not have, and for sizes that do not divide.
    """
    given = _pairs(arguments)
    work = _stage(given)
    moe, replicas = work.experts, work.dp * work.expert
    model = Decoder(layers=work.num_stacks, d_model=work.dmodel, heads=_number("head", given.get("head", "64")),
                    kv_heads=None if moe is None else work.kvhead, ffn=work.dff, gated=False, activation="gelu",
                    norm="layer", positions="none", vocab=work.dvocal, seq=work.seq,
                    moe=None if moe is None else Experts(experts=moe, top_k=work.kexperts))
    return Transformer(model, work.batch, dp=replicas, ep=work.expert, tp=work.tensor, sp=work.sp, pp=work.pp,
                       micro_batch=None if work.micro_batch is None else max(1, work.micro_batch // replicas),
                       tp_sequence=work.tpsp, zero=3 if work.weight_sharded else 0, order="stage",
                       recompute="full" if given.get("activation_recompute", "false").lower() in TRUE else "none")

