"""What there is to choose from: per kind a name, one sentence, and where the object lives; imported when asked for.

One more of a kind is one new file and one line here. Other packages add theirs
through the entry-point group `astrarium.plugins`: `"compute.mine" = "my_package.my_module:MyCompute"`.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from astrarium.entry_points import GROUP, declared, files
from astrarium.errors import InputError, nearest

__all__ = ["GROUP", "Entry", "Kind", "built_ins", "entries", "kinds", "load", "names", "printed"]



class Entry(Struct, frozen=True):
    """One thing to choose: `target` is "module:object"; `package` names who brought it, empty for a built-in."""

    kind: str
    name: str
    target: str
    sentence: str
    package: str = ""


_BUILT_IN: Mapping[str, Mapping[str, tuple[str, str]]] = MappingProxyType({
    "workload": {
        "trace": ("astrarium.workload.config:Trace", "Chakra execution traces, one file per rank."),
        "collective": ("astrarium.workload.single:SingleCollective", "One collective of all ranks, and nothing else."),
        "micro": ("astrarium.workload.micro:Micro",
                  "Microbenchmarks: one pattern of collectives, messages, compute or memory."),
        "transformer": ("astrarium.workload.transformer:Transformer",
                        "Training of a model: parallelisation, pipeline schedule, ZeRO, precision."),
        "inference": ("astrarium.workload.inference.config:Inference",
                      "Prefill, decode or whole requests of a batch: key-value cache, chunks, speculation."),
        "disaggregated": ("astrarium.workload.inference.disaggregated:Disaggregated",
                          "Prefill and decode on separate ranks, the cache sent in between; retrieval before."),
        "jobs": ("astrarium.workload.jobs:Jobs", "Several jobs on one fabric, each of any other source."),
    },
    "placement": {
        "packed": ("astrarium.workload.placements:packed", "A job takes the free NPUs of lowest number."),
        "spread": ("astrarium.workload.placements:spread",
                   "Free NPUs at equal distances, so that every host and every group of hosts gives its share."),
        "rail_aligned": ("astrarium.workload.placements:rail_aligned",
                         "The same coordinates of the innermost dim (rails) in every group."),
        "random": ("astrarium.workload.placements:random", "Free NPUs drawn from a seed."),
    },
    "family": {
        "decoder": ("astrarium.workload.model.decoder:Decoder",
                    "Decoder-only transformers (GPT, LLaMA, Mixtral, DeepSeek): any attention, FFN or experts."),
        "encoder": ("astrarium.workload.model.encoder:Encoder", "Encoders of text (BERT) or images (ViT)."),
        "encoder_decoder": ("astrarium.workload.model.encoder_decoder:EncoderDecoder",
                            "Encoder and decoder with cross-attention (T5, Whisper)."),
        "diffusion": ("astrarium.workload.model.diffusion:Diffusion", "Diffusion transformers (DiT)."),
        "mamba": ("astrarium.workload.model.mamba:Mamba", "State-space models (Mamba-2)."),
        "dlrm": ("astrarium.workload.model.dlrm:Dlrm", "Recommendation models: embedding tables and MLPs (DLRM)."),
    },
    "schedule": {
        "gpipe": ("astrarium.workload.schedule.gpipe:GPIPE", "All forward, then all backward."),
        "1f1b": ("astrarium.workload.schedule.one_f_one_b:ONE_F_ONE_B", "One forward, one backward in turn."),
        "interleaved": ("astrarium.workload.schedule.interleaved:INTERLEAVED",
                        "1F1B over several parts of the model per stage."),
        "zero_bubble": ("astrarium.workload.schedule.zero_bubble:ZERO_BUBBLE",
                        "1F1B with the gradients of weights later (ZB-H1)."),
        "dualpipe": ("astrarium.workload.schedule.dualpipe:DUALPIPE", "Two copies of the model, from both ends."),
    },
    "arrivals": {
        "poisson": ("astrarium.serving.requests:Poisson", "Requests at random, at a mean rate, from a seed."),
        "gamma": ("astrarium.serving.requests:Gamma", "Requests in bursts: at random with a given variation."),
        "closed_loop": ("astrarium.serving.requests:ClosedLoop",
                        "A number of users, each with one request at a time."),
        "trace": ("astrarium.serving.requests:RequestTrace", "Requests of a CSV file (Azure, BurstGPT, or that of "
                                                             "`serve --csv`)."),
        "mooncake": ("astrarium.serving.requests:Mooncake", "Requests of Mooncake's traces, with hashes of blocks."),
        "jsonl": ("astrarium.serving.requests:JsonLines",
                  "Requests of JSON lines: priorities, shared prefixes, hashes, conversations."),
        "sharegpt": ("astrarium.serving.requests:ShareGpt", "Lengths of ShareGPT's conversations, at random times."),
    },
    "lengths": {
        "uniform": ("astrarium.serving.requests:Uniform", "Numbers of tokens between two bounds, all equally likely."),
        "lognormal": ("astrarium.serving.requests:Lognormal", "Lognormal with a mean and a variation."),
        "empirical": ("astrarium.serving.requests:Empirical", "Lengths of a file, drawn with replacement."),
    },
    "algorithm": {
        "ring": ("astrarium.collective.algorithms.ring:RING",
                 "Each participant sends to the next one in a ring: least traffic, n - 1 steps."),
        "ring_two_way": ("astrarium.collective.algorithms.ring_two_way:RING_TWO_WAY",
                         "Two rings, half of the payload each, one per direction of the links."),
        "direct": ("astrarium.collective.algorithms.direct:DIRECT",
                   "Each participant sends to all others at once: one step (two for all_reduce)."),
        "halving_doubling": (
            "astrarium.collective.algorithms.halving_doubling:HALVING_DOUBLING",
            "Partners at doubling distance exchange halving shares: least traffic in ceil(log2 n) steps."),
        "double_binary_tree": (
            "astrarium.collective.algorithms.double_binary_tree:DOUBLE_BINARY_TREE",
            "Two complementary binary trees, half of the payload each, pipelined block by block."),
        "bruck": ("astrarium.collective.algorithms.bruck:BRUCK",
                  "Peers at doubling distance, growing bundles: fewest messages for small payloads."),
        "binomial_tree": ("astrarium.collective.algorithms.binomial_tree:BINOMIAL_TREE",
                          "One binomial tree that carries the whole payload: ceil(log2 n) steps per way."),
        "nvls": ("astrarium.collective.algorithms.in_switch:NVLS",
                 "A switch adds and multicasts what NPUs read and write through it (NVLink SHARP)."),
        "sharp": ("astrarium.collective.algorithms.in_switch:SHARP",
                  "Switches add on the way up and multicast on the way down: the payload once each way."),
    },
    "composition": {
        "baseline": ("", "Every chunk runs the collective dim after dim, innermost first, on all of its data."),
        "blueconnect": ("", "reduce_scatter from the innermost dim outwards, all_gather back: outer dims carry less."),
        "themis": ("", "Every chunk takes the dims in the order that balances their load (Themis)."),
    },
    "scheduling": {
        "lifo": ("", "Among waiting collectives, the one that became ready last goes first."),
        "fifo": ("", "Among waiting collectives, the one that became ready first goes first."),
        "priority": ("", "Among waiting collectives, the one with the largest priority in the trace goes first."),
    },
    "choice": {
        "auto": ("", "Open choices are the best by an estimate, for each operation, size and group."),
        "none": ("", "Open choices are fixed: algorithms by the dims' shapes, baseline, one chunk."),
    },
    "kernel": {
        "one_shot": ("astrarium.gpu.kernels.all_pairs:ONE_SHOT",
                     "Each GPU gets all data and adds it up: one step, most bytes."),
        "all_pairs": ("astrarium.gpu.kernels.all_pairs:ALL_PAIRS",
                      "All pairs of GPUs exchange data at once: one step (all_reduce two, also called two-shot)."),
        "ring": ("astrarium.gpu.kernels.ring:RING",
                 "Each GPU passes chunks to the next one: n - 1 steps (all_reduce 2 (n - 1))."),
        "nvls": ("astrarium.gpu.kernels.multimem:NVLS",
                 "The switch answers loads with sums and copies stores to all (multimem; protocol simple)."),
        "copy_engine": ("astrarium.gpu.kernels.copy_engine:COPY_ENGINE",
                        "Copy engines push chunks to peers and use no compute unit (all_gather, all_to_all)."),
        "one_shot_read": ("astrarium.gpu.kernels.reading:ONE_SHOT_READ",
                          "Each GPU reads all data and adds it up, with a barrier before and after (direction get)."),
        "two_shot_read": ("astrarium.gpu.kernels.reading:TWO_SHOT_READ",
                          "Each GPU reads and adds its chunk, then reads the sums of the others (direction get)."),
    },
    "timer": {
        "simulated": ("", "A collective takes as long as its messages on the network."),
        "measured": ("astrarium.collective.timers:measured",
                     "A collective takes the measured time of its fabric, group and payload."),
    },
    "compute": {
        "replay": ("astrarium.compute.config:Replay", "Each node takes its recorded time."),
        "roofline": (
            "astrarium.compute.config:Roofline",
            "A node takes its flops at the peak or its bytes at memory bandwidth, whichever is longer."),
        "measured": ("astrarium.compute.measured:Measured",
                     "Kernels take the time of a model that was fitted on measured rows of the device."),
        "analytic": ("astrarium.compute.analytic:Analytic",
                     "A device without measured kernels: its data sheet, at the efficiency of measured devices."),
        "calibrated": ("astrarium.compute.calibrated:Calibrated",
                       "A device model corrected by your timings (`astrarium calibrate`)."),
        "systolic": ("astrarium.compute.systolic:Systolic",
                     "Products on systolic arrays, such as a TPU's: tiles, on-chip buffers, stalls."),
    },
    "remote": {
        "none": ("", "No remote memory: a node that needs it is an error."),
        "per_npu": ("", "Every NPU has its own remote memory."),
        "per_node": ("", "The NPUs of a node share one remote memory, one access at a time."),
        "pool": ("", "All NPUs share one remote memory, one access at a time; with levels, memory groups behind "
                     "switches, all NPUs at once."),
    },
    "shape": {
        "ring": ("astrarium.network.config:Ring", "Each NPU is linked to two neighbours (or to the next one only)."),
        "switch": ("astrarium.network.config:Switch", "Each NPU has one link to a switch: two hops."),
        "fully_connected": ("astrarium.network.config:FullyConnected", "Each NPU has a link to every other."),
        "mesh": ("astrarium.network.config:Mesh", "A line of NPUs; a 2-D mesh is two such dims."),
        "hypercube": ("astrarium.network.config:Hypercube", "NPUs whose numbers differ in one bit are linked."),
        "torus": ("astrarium.network.config:Torus", "Several ring dims of equal links, one per direction."),
    },
    "blueprint": {
        "clos": ("astrarium.fabric.blueprints.clos:Clos",
                 "Hosts under a Clos network of two or three tiers; without oversubscription a fat tree."),
        "dgx_h100_rail": ("astrarium.fabric.blueprints.rail:DgxH100Rail",
                          "DGX H100 hosts on eight rails, with leaf and spine switches."),
        "dgx_a100_rail": ("astrarium.fabric.blueprints.rail:DgxA100Rail",
                          "DGX A100 hosts on eight rails, with leaf and spine switches."),
        "dgx_h100_rail_only": ("astrarium.fabric.blueprints.rail:DgxH100RailOnly",
                               "DGX H100 hosts on eight rails that are joined only by the hosts."),
        "dgx_a100_rail_only": ("astrarium.fabric.blueprints.rail:DgxA100RailOnly",
                               "DGX A100 hosts on eight rails that are joined only by the hosts."),
        "host_rail": ("astrarium.fabric.blueprints.host_rail:HostRail",
                      "Hosts that a file describes (NCCL, lstopo, InfraGraph), a rail per network card."),
        "dragonfly": ("astrarium.fabric.blueprints.dragonfly:Dragonfly",
                      "Groups of routers, all joined; one link between every two groups."),
        "torus": ("astrarium.fabric.blueprints.grid:Torus", "XPUs in a grid whose lines are closed to rings."),
        "mesh": ("astrarium.fabric.blueprints.grid:Mesh", "XPUs in a grid of open lines."),
        "file": ("astrarium.fabric.config:FabricFile", "An InfraGraph file (network.fabric.file)."),
    },
    "agent": {
        "random": ("astrarium.search.agents.sampling:Random", "Feasible designs at random, all equally likely."),
        "grid": ("astrarium.search.agents.sampling:Grid", "Every design once, in an evenly spread order."),
        "saltelli": ("astrarium.search.agents.saltelli:Saltelli",
                     "A designed sample: report then prints Sobol indices."),
        "exact": ("astrarium.search.agents.exact:Exact", "The optimum with a proof, by branch and bound."),
        "annealing": ("astrarium.search.agents.annealing:Annealing",
                      "Simulated annealing, several chains."),
        "genetic": ("astrarium.search.agents.genetic:Genetic", "Genetic algorithm: crossover, mutation, repair."),
        "ant_colony": ("astrarium.search.agents.ant_colony:AntColony", "Ant colony system on the knobs' values."),
        "tpe": ("astrarium.search.agents.tpe:Tpe", "Tree-structured Parzen estimator (Optuna; extra: search)."),
        "bayesian": ("astrarium.search.agents.bayesian:Bayesian",
                     "Bayesian optimisation with Gaussian processes (the default)."),
        "nsga2": ("astrarium.search.agents.nsga2:Nsga2", "NSGA-II for several objectives (pymoo; extra: search)."),
        "command": ("astrarium.search.agents.command:Command", "A program of yours, asked in lines of JSON."),
        "ppo": ("astrarium.search.agents.ppo:Ppo", "Proximal policy optimisation (Stable-Baselines3; extra: rl)."),
    },
    "figure": {
        "makespan": ("astrarium.cost.times:MAKESPAN", "Finish of the last rank, ns."),
        "exposed_comm": ("astrarium.cost.times:EXPOSED_COMM",
                         "Exposed communication of the rank that finishes last, ns."),
        "compute_time": ("astrarium.cost.times:COMPUTE_TIME", "Compute time of the rank that finishes last, ns."),
        "peak_memory": ("astrarium.cost.memory:PEAK_MEMORY", "Highest use of local memory on any rank, bytes."),
        "tier_use": ("astrarium.cost.memory:TIER_USE", "Largest share of its part of a tier that a rank uses."),
        "ttft": ("astrarium.cost.times:TTFT", "Time to the first token of an inference workload, ns."),
        "tpot": ("astrarium.cost.times:TPOT", "Time of each further token, ns."),
        "network_cost": ("astrarium.cost.network:NETWORK_COST", "US dollars of the network (LIBRA's prices)."),
        "network_bandwidth": ("astrarium.cost.network:NETWORK_BANDWIDTH",
                              "Byte/ns out of one NPU over all its links."),
        "energy": ("astrarium.cost.energy:ENERGY",
                   "Joules of all NPUs and their network, from `power`, `idle_power` and the dims' `energy`."),
        "system_cost": ("astrarium.cost.price:SYSTEM_COST",
                        "US dollars of all NPUs (`compute.price`) and the network."),
        "operation_energy": ("astrarium.cost.operations:OPERATION_ENERGY",
                             "Joules by FLOPs, bytes and bit-hops, and idle power (`cost.flop_energy`, ...)."),
        "capital_cost": ("astrarium.cost.capital:CAPITAL_COST",
                         "US dollars of hosts, devices, cards, switches and links (`cost` names the parts)."),
        "embodied_carbon": ("astrarium.cost.capital:EMBODIED_CARBON",
                            "kg CO2 of making the hosts, as far as their part says."),
        "power_peak": ("astrarium.cost.power:POWER_PEAK", "W of the site while all NPUs compute, times the PUE."),
        "power_mean": ("astrarium.cost.power:POWER_MEAN", "Mean W of the site during the run, times the PUE."),
        "site_energy": ("astrarium.cost.power:SITE_ENERGY",
                        "Joules of the site during the run: NPUs, hosts, switches, optics, times the PUE."),
        "energy_cost": ("astrarium.cost.running:ENERGY_COST", "US dollars of the energy of the run."),
        "cost_per_hour": ("astrarium.cost.running:COST_PER_HOUR",
                          "US dollars of an hour of work: rent, or capital over its lifetime and energy."),
        "training_cost": ("astrarium.cost.running:TRAINING_COST",
                          "US dollars of a training run of `cost.tokens` tokens, rented or bought."),
        "owned_cost_per_tera_tokens": ("astrarium.cost.running:OWNED_COST_PER_TERA_TOKENS",
                                       "US dollars of 10^12 tokens of training on bought systems."),
        "energy_per_tera_tokens": ("astrarium.cost.running:ENERGY_PER_TERA_TOKENS",
                                   "kWh of the site for 10^12 tokens of training."),
        "carbon": ("astrarium.cost.running:CARBON", "kg CO2 of the energy of the run, by the grid's mean."),
        "carbon_per_tera_tokens": ("astrarium.cost.running:CARBON_PER_TERA_TOKENS",
                                   "kg CO2 of the energy of 10^12 tokens of training."),
        "mfu": ("astrarium.cost.training:MFU",
                "Share of the NPUs' peak used by the model's products (PaLM, appendix B), training."),
        "hfu": ("astrarium.cost.training:HFU",
                "Share of the NPUs' peak used by all products, also recomputed ones (Korthikanti et al.), training."),
        "model_tflops_per_npu": ("astrarium.cost.training:TFLOPS_PER_NPU",
                                 "Model FLOPs of a training step over its time and the ranks, TFLOP/s."),
        "tokens_per_second": ("astrarium.cost.training:TOKENS", "Tokens of a training step over its time, 1/s."),
        "tokens_per_second_per_npu": ("astrarium.cost.training:TOKENS_PER_NPU", "Tokens of a training step over its "
                                                                                "time and the ranks, 1/s."),
        "samples_per_second": ("astrarium.cost.training:SAMPLES", "Samples of a training step over its time, 1/s."),
        "cost_per_tera_tokens": ("astrarium.cost.training:COST_PER_TERA_TOKENS",
                                 "US dollars of 10^12 tokens of training on rented NPUs (`compute.hourly_price`, "
                                 "`cost.rental`)."),
        "slowdown": ("astrarium.cost.slowdown:SLOWDOWN",
                     "Largest makespan of a job over its makespan alone, of several jobs on one fabric."),
    },
    "reader": {
        "chakra": ("astrarium.trace.readers:CHAKRA", "Chakra execution traces (.et)."),
        "kineto": ("astrarium.profile.readers:KINETO", "Kineto's JSON of PyTorch's profiler: kernels, runtime calls."),
        "host": ("astrarium.profile.readers:HOST",
                 "ExecutionTraceObserver's JSON of PyTorch: operators; with kernels where Chakra's linker joined it."),
        "feeder": ("astrarium.profile.readers:FEEDER", "JSON of Chakra's feeder (workload_graph)."),
        "stablehlo": ("astrarium.trace.graphs.stablehlo:READER", "StableHLO text (JAX, TensorFlow)."),
        "jsonl": ("astrarium.report.trace.json_lines:READER", "JSON lines of `astrarium convert --to jsonl`."),
        "text": ("astrarium.profile.readers:TEXT",
                 "Text workloads of ASTRA-sim 1.0, of all ranks at once (`astrarium trace convert --npus`)."),
    },
    "transport": {
        "credits": ("astrarium.network.transport:Credits",
                    "Lossless by credits of links' buffers (InfiniBand, NVLink)."),
        "roce": ("astrarium.network.roce:Roce", "RoCE: PFC, ECN and DCQCN."),
    },
    "page": {
        "run": ("astrarium.report.pages.run:PAGE", "A run: figures, parts of the time, pipeline, kernels, memory."),
        "plan": ("astrarium.report.pages.plan:PAGE", "A plan: layouts, their intervals, parts of the time, pipeline."),
        "serve": ("astrarium.report.pages.serving:PAGE", "A stream: latencies, queue and cache over time."),
        "plan_serving": ("astrarium.report.pages.serving_plan:PAGE",
                         "A plan of serving: engines, their intervals, loads, latencies."),
        "report": ("astrarium.report.pages.study:PAGE", "Searches: best designs, why, Pareto front, convergence."),
        "validate": ("astrarium.report.pages.validation:PAGE", "Measured rows against predictions, errors by source."),
        "trace": ("astrarium.report.pages.trace:PAGE", "One trace: nodes by kind, times as recorded."),
    },
    "table": {
        "run": ("astrarium.report.tables.printed:run", "What print(result) shows: times, collectives, links, memory."),
        "plan": ("astrarium.report.tables.printed:plan", "Layouts, best first, and why the others are slower."),
        "plan_serving": ("astrarium.report.tables.printed:plan_serving", "Engines, best first, and why others lost."),
        "serve": ("astrarium.report.tables.printed:serve", "A stream of requests: latencies and rates."),
        "search": ("astrarium.report.tables.printed:search", "How a search went, its best design and front."),
    },
    "backend": {
        "closed_form": ("astrarium.engine.media:PORTS",
                        "Each port of an NPU in a dim moves one message at a time; nothing queues inside a dim."),
        "contention": ("astrarium.engine.media:LINKS",
                       "Messages cross every link of their route, heads first, and queue for each."),
        "fluid": ("astrarium.engine.media:FLOWS",
                  "Messages leave one after the other, then share links at max-min fair rates."),
        "packets": ("astrarium.engine.media:PACKETS",
                    "Messages are cut into packets, which queue at each link of their route, with credits or RoCE."),
        "ns3": ("astrarium.network.ns3:make",
                "ns-3's packets over UDP or TCP, in a separate program that `make ns3` builds."),
        "library": ("", "Your network simulator in a shared library, with the C ABI astrarium_network.h."),
    },
})


def kinds() -> tuple[str, ...]:
    """Every kind of thing that can be chosen."""
    return tuple(_BUILT_IN) + tuple(kind for kind in _plugins(files()) if kind not in _BUILT_IN)


@functools.cache
def _built_in(kind: str) -> Mapping[str, Entry]:
    return {name: Entry(kind, name, target, sentence) for name, (target, sentence) in _BUILT_IN.get(kind, {}).items()}


@functools.cache
def _plugins(beside: str) -> Mapping[str, Mapping[str, Entry]]:
    """Plug-ins by kind and name, with those of the files `beside`; a built-in name cannot be taken."""
    found: dict[str, dict[str, Entry]] = {}
    for full, target, package in declared(beside):
        kind, dot, name = full.partition(".")
        if not dot or not name:
            raise InputError(f"{package}: {full}", "is not the name of a plug-in", expected="kind.name")
        if name in _built_in(kind) or name in found.get(kind, {}):
            raise InputError(f"{package}: {full}", "is taken by another one", expected="another name")
        found.setdefault(kind, {})[name] = Entry(kind, name, target, f"Plug-in of {package}.", package)
    return found


def entries(kind: str) -> Mapping[str, Entry]:
    """Everything of one kind, built-ins first. Raises InputError for an unknown kind."""
    if kind not in kinds():
        raise InputError(kind, "unknown kind", expected="one of " + ", ".join(kinds()),
                         did_you_mean=nearest(kind, kinds()))
    return {**_built_in(kind), **_plugins(files()).get(kind, {})}


def built_ins(kind: str) -> Mapping[str, Entry]:
    """Everything of one kind but plug-ins, which are not looked for."""
    return _built_in(kind)


def names(kind: str) -> tuple[str, ...]:
    """The names of one kind."""
    return tuple(entries(kind))


def load(kind: str, name: str) -> Any:
    """The object behind a name. Raises InputError with the nearest match for an unknown one."""
    entry = _built_in(kind).get(name) or entries(kind).get(name)
    if entry is None:
        known = names(kind)
        raise InputError(kind, f"{name[:60]!r} is not known", expected="one of " + ", ".join(known),
                         did_you_mean=nearest(name, known))
    if not entry.target:
        raise InputError(kind, f"{name!r} is a choice, there is no object behind it")
    return _resolve(entry.target, entry.package)


def _resolve(target: str, package: str = "") -> Any:
    module, _, attribute = target.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        if not package:
            raise
        raise InputError(f"{package}: {target}", f"the plug-in cannot be loaded ({error})") from error


def printed(name: str, answer: Any) -> str:
    """What `print` shows of an answer: the text of `table.NAME`."""
    return str(load("table", name)(answer))


class Kind(Struct, frozen=True):
    """One kind, as config classes hold it: membership is answered from the built-ins before plug-ins are looked for."""

    kind: str

    def names(self) -> tuple[str, ...]:
        return names(self.kind)

    def load(self, name: str) -> Any:
        return load(self.kind, name)

    def __contains__(self, name: object) -> bool:
        return name in _built_in(self.kind) or name in entries(self.kind)
