"""Small random runs through the drop-in path: an answer or an error meant for the user, the same folded and not."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from .dropin import answer, parse
from .strategies import as_json, as_yaml, settings, spmd


@given(data=st.data(), spoil=st.booleans(), backend=st.sampled_from(["unaware", "aware"]))
def test_random_runs(data: st.DataObject, spoil: bool, backend: str) -> None:
    """Folded and not: one answer, or refused alike."""
    system, network, memory, groups = data.draw(settings())
    npus = 1
    for size in network["npus_count"]:
        npus *= size
    files = data.draw(spmd(npus, spoil))
    with tempfile.TemporaryDirectory() as name:
        inputs = parse(Path(name), as_json(system), as_yaml(network), as_json(memory), as_json(groups), backend)
    assert answer(inputs, files, fold=True) == answer(inputs, files, fold=False)
