"""Software stacks: settings where a design says nothing."""

from __future__ import annotations

import pytest

import astrarium as ar
from astrarium import config
from astrarium.design import Design

PLAIN = {"stack": "megatron-lm", "compute": "a100_sxm_80gb", "memory": {"bandwidth": "2 TB/s"},
         "network": {"dims": [{"shape": "switch", "npus": 8, "bandwidth": "300 GB/s", "latency": "1 us"}]},
         "workload": {"source": "transformer", "model": "megatron-22b", "tp": 8, "global_batch": 4}}


def changed(**workload: object) -> Design:
    return config.decode(Design, {**PLAIN, "workload": {**PLAIN["workload"], **workload}})


def test_settings_apply_where_the_design_says_nothing() -> None:
    design = config.decode(Design, PLAIN)
    assert design.workload.attention == "unfused"
    assert design.workload.precision.gradients == "fp32"
    assert design.system.comm_streams == 3


def test_what_the_design_states_stays_even_where_it_is_the_default() -> None:
    assert changed(attention="flash").workload.attention == "flash"
    assert changed(precision={"gradients": "bf16"}).workload.precision.gradients == "bf16"


def test_a_design_with_a_stack_reads_back_equal() -> None:
    design = changed(attention="flash")
    assert config.loads(Design, config.dumps(design)) == design
    assert ar.replace(design, "workload.tp", 8) == design


def test_an_unknown_stack_names_the_nearest() -> None:
    with pytest.raises(ar.InputError, match="megatron-lm"):
        config.decode(Design, {**PLAIN, "stack": "megatronlm"})


def test_settings_of_another_kind_of_section_do_not_apply() -> None:
    plain = {**PLAIN, "workload": {"source": "collective", "op": "all_reduce", "payload": "1 MB"}}
    assert config.decode(Design, plain).stack == "megatron-lm"
