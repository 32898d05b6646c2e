"""Import of a Hugging Face `config.json`: the same `Model` that the catalog would hold.

A key that changes what is counted here is read, or refused where it asks for something that no family has. What changes
no count (rope scaling, dropout rates, soft caps) is passed over. `Model.notes` says what was assumed, which features
were left to the run (quantisation: precisions belong to it) and which keys were not read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from astrarium.config import ConfigError
from astrarium.config.coerce import shown
from astrarium.config.yamlfile import once
from astrarium.errors import InputError, UnsupportedError, nearest
from astrarium.registry import load, names
from astrarium.workload.model.hugging_face_keys import Keys, Reader
from astrarium.workload.model.hugging_face_notes import notes_of
from astrarium.workload.model.hugging_face_quantised import quantised

if TYPE_CHECKING:
    from astrarium.workload.model.base import Model

__all__ = ["LARGEST", "from_mapping", "read_config", "readers"]

UNMODELLED: Mapping[str, str] = MappingProxyType({
    "kimi_k3": "a residual that attends to earlier layers (attn_res_block_size), and Kimi delta attention "
               "(linear_attn_config)"})
"""Values of `model_type` that are known, and what their models have that no family here has."""
LARGEST = 1 << 24  # bytes of a config.json: one that lists the format of every module has 4 MB


def readers() -> Mapping[str, tuple[type[Model], Reader]]:
    """Every `model_type` that a family of the registry reads: its class, and the function from keys to its fields.
    Raises InputError where two families read one."""
    found: dict[str, tuple[type[Model], Reader]] = {}
    for name in names("family"):
        family: type[Model] = load("family", name)
        mine = family.readers()
        both = next((kind for kind in mine if kind in found), None)
        if both is not None:
            raise InputError(f"family.{name}", f"reads model_type {both!r}, which another family reads",
                             expected="another model_type")
        found |= {kind: (family, reader) for kind, reader in mine.items()}
    return found


def read_config(path: str | os.PathLike[str]) -> Model:
    """The model that a config.json describes. Raises InputError with the file and the key."""
    name = os.fspath(path)
    plain, beside = _decoded(name), _beside(name)
    if isinstance(plain, dict) and "quantization_config" not in plain and os.path.isfile(beside):
        found = _decoded(beside)
        config = found.get("quantization") if isinstance(found, dict) else None
        plain = {**plain, "quantization_config": config}
    return from_mapping(plain, name)


def _beside(name: str) -> str:
    """The file in which NVIDIA's ModelOpt says the formats of a checkpoint."""
    folder, file = os.path.split(name)
    return os.path.join(folder, file.removesuffix("config.json") + "hf_quant_config.json")


def _decoded(name: str) -> object:
    """The content of a file of JSON. Raises InputError."""
    try:
        with open(name, "rb") as stream:
            data = stream.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(name, f"cannot be read ({reason})", expected="a config.json") from None
    if len(data) > LARGEST:
        raise InputError(name, f"is larger than {LARGEST} bytes", expected="a config.json")
    try:
        found: object = json.loads(data.decode("utf-8-sig"), object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)[:120]
        raise InputError(name, f"is not JSON ({reason})", expected="a config.json") from None
    return found


def from_mapping(plain: object, name: str = "config.json") -> Model:
    """The model that the decoded content of a config.json describes; `name` is used in messages. Raises InputError."""
    if not isinstance(plain, dict):
        raise InputError(name, f"{shown(plain)} is not a mapping", expected="the keys of a config.json")
    if "peft_type" in plain:
        raise UnsupportedError(f"{name}: peft_type", f"adapters ({shown(plain['peft_type'])}) have no model here",
                               expected="the config.json of the model that they adapt")
    keys = Keys(plain, name)
    kind, known = keys.text("model_type"), readers()
    if kind in UNMODELLED:
        raise UnsupportedError(f"{name}: model_type", f"{kind!r} has no model here: {UNMODELLED[kind]}",
                               expected="a family without them: " + ", ".join(known))
    if kind not in known:
        raise UnsupportedError(f"{name}: model_type", f"{kind[:60]!r} has no family here",
                               expected="one of " + ", ".join(known), did_you_mean=nearest(kind, known))
    family, reader = known[kind]
    try:
        fields = reader(keys)
        checkpoint, said = quantised(plain, fields.get("layers", 0))
        return family(**fields, notes=(*notes_of(keys), *said), checkpoint=checkpoint)
    except ConfigError as error:
        first = error.problems[0]
        raise InputError(f"{name}: {first.path.partition('.')[2]}", first.message, expected=first.expected) from None
