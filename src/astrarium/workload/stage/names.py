"""The flags of STAGE's main.py by what they are."""

__all__ = ["DENSE", "EXPERTS", "FLAGS", "IGNORED", "NUMBERS", "TRUE", "TRUTHS"]

TRUE = ("true", "t", "1", "yes", "y")        # as main.py reads them; everything else is false
NUMBERS = ("dp", "tp", "sp", "ep", "pp", "dvocal", "dmodel", "dff", "batch", "micro_batch", "seq", "num_stacks")
TRUTHS = ("weight_sharded", "tpsp")
EXPERTS = ("head", "kvhead", "experts", "kexperts")      # ignored where the model is dense
IGNORED = ("activation_recompute", "chakra_schema_version", "print_gpu_vram")
OTHERS = ("output_dir", "output_name", "model_type", "mixed_precision")
FLAGS = (*OTHERS, *NUMBERS, *EXPERTS, *TRUTHS, *IGNORED)
DENSE = ("dense", "gpt", "llama")            # the same traces, byte for byte up to tags
