"""A model in a file or a constructor: its fields, a name of the catalog, or the path of a config.json."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import pytest

from astrarium import config
from astrarium.config import Config, ConfigError
from astrarium.errors import InputError
from astrarium.workload.model.base import Model
from astrarium.workload.model.decoder import Decoder
from astrarium.workload.model.experts import Experts
from astrarium.workload.model.hugging_face import from_mapping

LLAMA = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
         "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 1000, "tie_word_embeddings": False}


class Section(Config, frozen=True):
    model: Model


def test_a_name_of_the_catalog() -> None:
    section = Section("llama2-7b")
    assert isinstance(section.model, Decoder)
    assert (section.model.layers, int(section.model.head)) == (32, 128)
    assert section.model.attention == "mha"
    assert config.replace(section, "model.layers", 4).model == Section(
        {**config.to_plain(section.model), "layers": 4}).model  # type: ignore[arg-type]
    assert config.loads(Section, "model: llama2-7b") == section == config.loads(Section, config.dumps(section))
    assert config.replace(section, "model", "gpt3-175b").model == Section("gpt3-175b").model


def test_a_config_json_beside_the_design_file(tmp_path: Path) -> None:
    (tmp_path / "llama.json").write_text(json.dumps(LLAMA))
    (tmp_path / "design.yaml").write_text("model: llama.json")
    section = config.load(Section, tmp_path / "design.yaml")
    assert section.model == Decoder(layers=2, d_model=64, heads=4, kv_heads=2, ffn=128, vocab=1000, seq=None,
                                    notes=section.model.notes)
    assert section.model.notes
    config.dump(section, tmp_path / "elsewhere.yaml")
    (tmp_path / "llama.json").unlink()
    assert config.load(Section, tmp_path / "elsewhere.yaml") == section


def test_a_model_and_its_fields_change_together_in_any_order() -> None:
    section = Section("mixtral-8x7b")
    for changes in ({"model": "llama3-8b", "model.layers": 2}, {"model.layers": 2, "model": "llama3-8b"}):
        expected = config.replace(Section("llama3-8b"), "model.layers", 2)
        assert config.replace_all(section, changes) == expected
    assert config.replace(section, "model.moe.top_k", 1).model != section.model
    for model in ("llama3-8b", {"family": "mamba", "layers": 1, "d_model": 64, "vocab": 10}):
        with pytest.raises(InputError, match=r"model\.moe\.top_k: is a part of what another change replaces"):
            config.replace_all(section, {"model": model, "model.moe.top_k": 1})
    with pytest.raises(ConfigError, match="model: 'nope' is not a model of the catalog"):
        config.replace_all(section, {"model": "nope", "model.layers": 2})


class Several(Config, frozen=True):
    sections: Sequence[Section]
    other: Section | None = None


def test_files_within_lists_and_optional_sections(tmp_path: Path) -> None:
    (tmp_path / "llama.json").write_text(json.dumps(LLAMA))
    (tmp_path / "design.yaml").write_text("sections: [{model: llama.json}, {model: llama2-7b}]\n"
                                          "other: {model: llama.json}")
    found = config.load(Several, tmp_path / "design.yaml")
    assert found.sections[0] == found.other == Section(from_mapping(LLAMA))
    assert found.sections[1] == Section("llama2-7b")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("llama2_7", r"Section.model: 'llama2_7' is not a model of the catalog; .*did you mean 'llama2-7b'"),
        ("nowhere/config.json", r"Section.model: nowhere/config.json: cannot be read \(No such file"),
        ({"family": "decodr"}, r"Section.model.family: 'decodr' is not known; .*did you mean 'decoder'"),
        ({"family": "decoder", "layers": 1, "d_model": 8, "heads": 2, "ffn": 8}, r"Section.model.vocab: is missing"),
        (3, r"Section.model: 3 is a whole number; expected a name of the catalog"),
    ],
)
def test_what_is_no_model(value: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Section(value)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="is abstract"):
        Model()


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"kv_heads": 3}, "kv_heads: 3 does not divide 8 heads; expected one of 1, 2, 4, 8"),
        ({"kv_heads": 16}, "kv_heads: 16 is more than 8 heads"),
        ({"positions": "learned"}, "max_positions: is missing"),
        ({"full_every": 2}, "full_every: has no effect without window"),
        ({"moe": {"experts": 4, "top_k": 5}}, "moe.top_k: 5 is more than there are experts"),
        ({"moe": {"experts": 4, "top_k": 2, "dense_layers": 5}}, "moe.dense_layers: 5 is more than 4 layers"),
        ({"mla": {"kv_rank": 8, "nope_size": 4, "rope_size": 4, "v_size": 4}, "kv_heads": 8},
         "kv_heads: has no effect with mla"),
    ],
)
def test_decoders_that_cannot_be(changes: dict[str, object], path: str) -> None:
    with pytest.raises(ConfigError, match=path):
        Decoder(**{"layers": 4, "d_model": 64, "heads": 8, "ffn": 128, "vocab": 100, **changes})  # type: ignore[arg-type]


def test_heads_need_not_divide_the_model() -> None:
    model = Decoder(layers=40, d_model=5140, heads=40, ffn=20560, vocab=5140)
    assert model.head == Fraction(257, 2)
    assert Decoder(layers=1, d_model=64, heads=8, head_size=256, ffn=64, vocab=10).head == 256


def test_layers_differ_as_told() -> None:
    model = Decoder(layers=8, d_model=64, heads=8, ffn=64, vocab=10, window=16, full_every=4,
                    moe=Experts(experts=4, top_k=1, dense_layers=2, every=2))
    assert [index for index in range(8) if model.layer(index).moe] == [3, 5, 7]
    assert [index for index in range(8) if model.layer(index).window is None] == [3, 7]
