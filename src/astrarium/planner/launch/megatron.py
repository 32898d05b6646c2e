"""Megatron-LM's arguments, read and written.

Names and meanings: NVIDIA/Megatron-LM at d98e8a64 (2026-08-22): megatron/training/arguments.py (`validate_args`:
data_parallel_size = world_size / (tp * pp * cp); global_batch_size left out is micro_batch_size * data_parallel_size;
sequence_parallel is off where tp is 1; virtual stages from num_layers_per_virtual_pipeline_stage or
num_virtual_stages_per_pipeline_rank, the ends counted under account_for_*_in_pipeline_split),
megatron/core/model_parallel_config.py, megatron/core/transformer/transformer_config.py (recompute_*, moe_*),
megatron/training/config/{training,common}_config.py (use_megatron_fsdp, use_torch_fsdp2, vocab_size).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

from astrarium.errors import InputError, nearest
from astrarium.planner.launch.core_model import core_model
from astrarium.planner.launch.core_settings import core_settings
from astrarium.planner.launch.foreign import of_text
from astrarium.planner.launch.given import Given, Launch, without
from astrarium.planner.launch.known import is_off, known_keys
from astrarium.planner.launch.stage_layout import LayoutError, counts_of
from astrarium.planner.launch.words import arguments_of, printed_arguments

__all__ = ["launch_of", "read_megatron"]

RENAMED: Mapping[str, str] = MappingProxyType({
    "batch_size": "micro_batch_size", "model_parallel_size": "tensor_model_parallel_size",
    "num_layers_in_first_pipeline_stage": "decoder_first_pipeline_num_layers",
    "num_layers_in_last_pipeline_stage": "decoder_last_pipeline_num_layers",
    "num_moe_experts": "num_experts", "encoder_seq_length": "seq_length", "checkpoint_activations": "recompute_all",
    "expert_parallel": "experts_over_dp"})
"""Older or inner names -> those that are read."""
NEGATED: Mapping[str, str] = MappingProxyType({
    "add_bias_linear": "disable_bias_linear", "gradient_accumulation_fusion": "no_gradient_accumulation_fusion",
    "scatter_gather_tensors_in_pipeline": "no_scatter_gather_tensors_in_pipeline",
    "overlap_p2p_comm": "no_overlap_p2p_communication", "fp8_wgrad": "no_fp8_wgrad",
    "torch_fsdp2_reshard_after_forward": "torch_fsdp2_no_reshard_after_forward"})
"""Names under which Megatron-LM prints a switch that turns something off."""
MODULES = {"core_attn": "attention", "layernorm": "norms", "mlp": "ffn", "mla_up_proj": "latent",
           "moe_act": "expert_activation", "shared_experts": "shared_experts", "moe": "experts"}
SWITCHES = ("use_", "no_", "overlap_", "enable_", "disable_")     # beginnings of arguments without a value
_WORD = re.compile(r"(?!(?:true|false)$)[A-Za-z]\w*", re.IGNORECASE)
_PLAIN = re.compile(r"^[ \t]*(?:export[ \t]+)?([A-Za-z_]\w{0,63})=([^\s$;&|(){}]{1,80})[ \t]*(?:;|#|$)", re.MULTILINE)
MOST_SAID = 8       # variables
_BRANCH = re.compile(r"^\s*(if|case|elif)\b", re.MULTILINE)
"""A script that gives other arguments in other cases."""


def read_megatron(text: str, where: str, ignore: Sequence[str] = ()) -> Launch:
    """A job from Megatron-LM's arguments, as one types them, in a script, or as Megatron-LM prints them at its start.
    Raises InputError for what matters and is not predicted."""
    printed = printed_arguments(text)
    stray, skipped = list[tuple[str, bool]](), list[str]()
    values = arguments_of(text, where, stray=stray, skipped=skipped) if printed is None else \
        {**{NEGATED[name]: value is False for name, value in printed.items() if name in NEGATED},
         **{name: value for name, value in printed.items() if name not in NEGATED}}
    for old, new in RENAMED.items():
        if old in values and values.get(new) is None:
            values[new] = values[old]
        values.pop(old, None)
    _dashes(stray, where)
    if "micro_batch_size" not in values and "tensor_model_parallel_size" not in values:
        other = of_text(text)
        if other is not None:
            raise InputError(where, f"holds {other[0]}", expected=other[1])
        raise InputError(f"{where}: arguments", "no --micro-batch-size and no --tensor-model-parallel-size among them",
                         expected="Megatron-LM's launch arguments")
    names = [name.strip().lstrip("-").replace("-", "_") for name in ignore]
    values, left_out = without(values, [RENAMED.get(name, NEGATED.get(name, name)) for name in names], where)
    given = Given(where, values, known_keys("megatron"), printed is not None, assumed=[
        *([f"as without {', '.join(left_out)} (--ignore)"] if left_out else []),
        *_skipped(values, skipped),
        *_branches(text)])
    return launch_of(given, "megatron-lm", _npus(given))


def _branches(text: str) -> Iterator[str]:
    """What is said of a script that branches, with the values that other branches give a variable that is used."""
    if not _BRANCH.search(text):
        return
    found: dict[str, list[str]] = {}
    for name, value in _PLAIN.findall(text):
        found.setdefault(name, []).append(value.strip("\"'"))
    several = [f"{name}={values[-1]}, not {' or '.join(others)}" for name, values in found.items()
               if (others := list(dict.fromkeys(each for each in values if each != values[-1])))
               and re.search(rf"\$(?:{name}\b|\{{{name}\b)", text)]
    yield "every branch of the script counts: nothing in it is run" + (
        f"; of several values the last one does: {'; '.join(several[:MOST_SAID])}" if several else "") + (
        f"; and {len(several) - MOST_SAID} more" if len(several) > MOST_SAID else "")


def _skipped(values: Mapping[str, object], skipped: Sequence[str]) -> Iterator[str]:
    """What is said of words that count for nothing."""
    if skipped:
        yield f"skipped, as nothing in the file says what they are: {', '.join(dict.fromkeys(skipped))}"
    for name, value in values.items():
        if name.startswith(SWITCHES) and isinstance(value, str) and _WORD.fullmatch(value):
            yield f"skipped: {value[:80]} behind --{name.replace('_', '-')}, which takes no value"


@cache
def _names() -> frozenset[str]:
    """All arguments that are known."""
    given = Given("", {}, known_keys("megatron"))
    launch_of(given, "megatron-lm", _npus(given))
    return frozenset((*given.names(), *RENAMED, *NEGATED))


def _dashes(stray: Sequence[tuple[str, bool]], where: str) -> None:
    """InputError for a word that is an argument without its dashes, or nothing that the program takes."""
    for word, alone in stray:
        name = word.lstrip("-").replace("-", "_")
        if alone or ("_" in name and name in _names()):
            near = name if name in _names() else nearest(name[:80], sorted(_names()))
            raise InputError(f"{where}: {word[:80]}", "is no argument, and no value of one",
                             expected="-- before the name of an argument",
                             did_you_mean=near and "--" + near.replace("_", "-"))


def _npus(given: Given) -> int | None:
    """torchrun's --nnodes times --nproc-per-node where both are numbers, or the world_size that Megatron-LM prints."""
    nodes, each, whole = (str(given.raw(name)) for name in ("nnodes", "nproc_per_node", "world_size"))
    if nodes.isdecimal() and each.isdecimal() and len(nodes) < 7 and len(each) < 5:
        return int(nodes) * int(each)
    return int(whole) if whole.isdecimal() and 0 < len(whole) < 9 else None


def launch_of(given: Given, framework: str, npus: int | None) -> Launch:
    """The job that Megatron core's names say."""
    tp, pp = given.whole("tensor_model_parallel_size", 1), given.whole("pipeline_model_parallel_size", 1)
    experts = given.number("num_experts", None, 0)
    _refused(given, tp, experts)
    layers = given.number("num_layers")
    stages, virtual = _stages(given, layers, pp)
    micro = given.whole("micro_batch_size", 1)
    recompute, fields = _recompute(given)
    layout = {
        "tp": tp, "pp": pp, "cp": given.whole("context_parallel_size", 1), "zero": _zero(given),
        "ep": given.whole("expert_model_parallel_size", 1), "micro_batch": micro, "recompute": recompute,
        "virtual_stages": virtual, "tp_sequence": given.flag("sequence_parallel") and tp > 1}
    model, missing = core_model(given, experts, framework == "megatron-lm")
    settings, seq = core_settings(given), given.number("seq_length")
    batch = given.number("global_batch_size")
    copies = given.whole("num_distributed_optimizer_instances", 1)
    fields |= {} if stages is None else {"stage_layers": list(stages)}
    assumed, ignored = given.rest()
    return Launch(framework, layout, model, None, seq, batch, settings, npus,
                  replica_batch=None if batch else micro, fields=fields, missing=missing, assumed=assumed,
                  ignored=ignored, copies=copies)


def _refused(given: Given, tp: int, experts: int | None) -> None:
    """What changes time and is not predicted."""
    given.refuse("hybrid_layer_pattern", (), "hybrid models")
    given.refuse("hybrid_override_pattern", (), "hybrid models")
    given.refuse("hierarchical_context_parallel_sizes", (), "two kinds of context parallelism at once")
    given.refuse("rampup_batch_size", (), "a batch that grows")
    for name in ("gtp_weight_remat_size", "expert_gtp_weight_remat_size", "tensor_parallel_num_weight_shards",
                 "expert_tensor_parallel_num_weight_shards"):
        given.refuse(name, (1,), "weights gathered over a further axis")
    given.refuse("optimizer_cpu_offload", (), "an optimizer on the host")
    given.refuse("cpu_offloading", (), "activations or weights on the host")
    given.refuse("outer_dp_sharding_strategy", ("no_shard",), "sharding over a second axis of data parallelism")
    given.refuse("mlp_chunks_for_training", (1,), "an FFN in pieces")
    given.refuse("experts_over_dp", (), "experts over all of dp; say expert_model_parallel_size")
    if experts:
        given.refuse("expert_tensor_parallel_size", (tp,), "experts are divided over tp as other layers are")
    elif str(given.raw("expert_tensor_parallel_size")) not in ("None", str(tp)):
        given.assumed.append("the model has no experts to divide (expert_tensor_parallel_size)")


def _zero(given: Given) -> int:
    """ZeRO's stage: of Megatron-FSDP, of PyTorch's FSDP2, or of the distributed optimizer."""
    stages = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3, "none": 3}
    sharding = given.choice("data_parallel_sharding_strategy", stages, "optim_grads_params")
    whole, torch = given.flag("torch_fsdp2_no_reshard_after_forward"), given.flag("use_torch_fsdp2")
    optimizer, own = given.flag("use_distributed_optimizer"), given.flags("use_megatron_fsdp", "use_custom_fsdp")
    return int(sharding) if own else (2 if whole else 3) if torch else int(optimizer)


def _recompute(given: Given) -> tuple[str, dict[str, Any]]:
    """(none, selective or full; fields that say which modules or layers)."""
    kinds = {"none": "none", "null": "none", "false": "none", "selective": "selective", "full": "full"}
    kind = str(given.choice("recompute_granularity", kinds, "none"))
    attention, whole = given.flag("recompute_activations"), given.flag("recompute_all")
    experts = given.flag("moe_layer_recompute")
    kind = "full" if whole else "selective" if kind == "none" and attention else kind
    said, method = given.raw("recompute_modules"), str(given.raw("recompute_method") or "uniform").lower()
    count = given.number("recompute_num_layers", None, 0)
    if (kind == "selective" and not is_off(said)) or (experts and kind != "full"):
        names = re.findall(r"\w+", "" if is_off(said) else str(said)) or (["core_attn"] if kind == "selective" else [])
        unknown = next((name for name in names if name not in MODULES), None)
        if unknown is not None:
            raise given.fault("recompute_modules", f"{unknown[:60]!r} is not predicted",
                              "some of " + ", ".join(MODULES))
        names += ["moe"] if experts else []
        given.assumed.append("computed again: " + ", ".join(MODULES[name] for name in names) + " (recompute_modules)")
        return "selective", {"recompute_modules": [MODULES[name] for name in names]}
    if kind == "full" and method == "block" and count is not None:
        given.assumed.append(f"{count} layers of every part compute again, the first ones (recompute_num_layers)")
        return kind, {"recompute_first": count}
    if kind == "full" and method == "uniform" and (count or 1) > 1:
        given.assumed.append(f"every layer's input is kept, not every {count}th (recompute_num_layers)")
    return kind, {}


def _stages(given: Given, layers: int | None, pp: int) -> tuple[tuple[int, ...] | None, int]:
    """(layers of every part where the stages are not equal, parts of a stage)."""
    ends = given.flag("account_for_embedding_in_pipeline_split"), given.flag("account_for_loss_in_pipeline_split")
    first = given.number("decoder_first_pipeline_num_layers", None, 0)
    last = given.number("decoder_last_pipeline_num_layers", None, 0)
    each = given.number("num_layers_per_virtual_pipeline_stage")
    virtual = given.number("num_virtual_stages_per_pipeline_rank", given.number("virtual_pipeline_model_parallel_size"))
    if each is not None and layers is None:
        raise given.fault("num_layers_per_virtual_pipeline_stage", "has no effect without num_layers")
    if pp == 1 and (first, last) != (None, None):
        given.assumed.append("the one stage has all layers (decoder_first_pipeline_num_layers and _last_)")
    if not is_off(by_hand := given.raw("pipeline_model_parallel_layout")):
        return _laid_out(given, str(by_hand), pp)
    whole = (layers or 0) + sum(ends)
    if each is not None:
        if whole % (pp * each):
            raise given.fault("num_layers_per_virtual_pipeline_stage", f"{each} times {pp} does not divide {whole}")
        virtual = whole // pp // each
    parts = pp * (virtual or 1)
    if (first is None and last is None and not any(ends)) or layers is None or pp == 1:
        return None, virtual or 1
    if virtual and (first is not None or last is not None):
        raise given.fault("decoder_first_pipeline_num_layers", "cannot be combined with virtual stages", "one of them")
    if any(ends):
        if whole % parts:
            raise given.fault("account_for_embedding_in_pipeline_split", f"{parts} parts do not divide {whole}")
        counts = [whole // parts] * parts
        counts[0] -= ends[0]
        counts[-1] -= ends[1]
        return tuple(counts), virtual or 1
    return _ends(given, layers, pp, first, last), 1


def _laid_out(given: Given, text: str, pp: int) -> tuple[tuple[int, ...], int]:
    """(layers of every part, parts of a stage) of a layout by hand."""
    name = "pipeline_model_parallel_layout"
    try:
        counts, last = counts_of(text)
    except LayoutError as error:
        raise given.fault(name, str(error), "a layout such as 'Et*3|(tt|)*29,m|L'") from None
    if len(counts) % pp:
        raise given.fault(name, f"has {len(counts)} parts, and {pp} stages do not divide them")
    if not last:
        given.assumed.append(f"modules for multi-token prediction run in the last part, with the head ({name})")
    return tuple(counts), len(counts) // pp


def _ends(given: Given, layers: int, pp: int, first: int | None, last: int | None) -> tuple[int, ...]:
    """Layers of every stage, of which the first and the last may have other numbers."""
    middle = layers - (first or 0) - (last or 0)
    between = pp - (first is not None) - (last is not None)
    if between < 0 or (between and middle % between) or (not between and middle):
        raise given.fault("decoder_first_pipeline_num_layers", f"leaves {middle} layers for {between} stages")
    counts = [*([first] if first is not None else []), *[middle // max(1, between)] * between,
              *([last] if last is not None else [])]
    return tuple(counts)
