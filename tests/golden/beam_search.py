"""Golden file of nn/beam_search.h: what Hugging Face's beam search finds with a model whose logits depend on the last token
and its place.

Tensors: "CASE/options" [seed of the table, beams, length penalty, early stopping, new tokens, eos], "CASE/tokens" [2, beams,
T] and "CASE/scores" [2, beams]. tests/beam_search_test.cpp has the same formula for the table.
"""

import math

import torch
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.utils import logging

from common import write_file

VOCABULARY, MOST = 8, 12
OPTIONS = (4, 1.0, False, 6, 3), (3, 0.0, False, 8, 5), (2, 2.0, True, 7, 1), (5, -1.0, False, 6, 2), (4, 1.0, True, 9, 6), (3, 1.0, False, 1, 0)


class Config(PretrainedConfig):
    model_type = "markov"

    def __init__(self, **options):
        super().__init__(**options)
        self.vocab_size, self.num_hidden_layers = VOCABULARY, 1


class Markov(PreTrainedModel, GenerationMixin):
    config_class = Config

    def __init__(self, config, table):
        super().__init__(config)
        self.table = torch.nn.Parameter(table)

    def forward(self, input_ids=None, attention_mask=None, **_):
        return CausalLMOutputWithPast(logits=self.table[torch.arange(input_ids.shape[1]), input_ids])

    def prepare_inputs_for_generation(self, input_ids, **_):
        return {"input_ids": input_ids}


def table(seed):
    return torch.tensor([[[3 * math.sin(12.9898 * i + 78.233 * j + 37.719 * seed + 4.581 * place) for j in range(VOCABULARY)]
                          for i in range(VOCABULARY)] for place in range(MOST)])


def write(folder):
    logging.set_verbosity_error()
    tensors = {}
    for seed in range(8):
        for beams, penalty, early, count, eos in OPTIONS:
            found = Markov(Config(), table(seed)).generate(
                torch.tensor([[1, 4], [2, 7]]), num_beams=beams, length_penalty=penalty, early_stopping=early, max_new_tokens=count,
                eos_token_id=eos, pad_token_id=eos, do_sample=False, num_return_sequences=beams, return_dict_in_generate=True, output_scores=True)
            case = str(len(tensors) // 3)
            tensors[case + "/options"] = torch.tensor([seed, beams, penalty, early, count, eos], dtype=torch.float64)
            tensors[case + "/tokens"] = found.sequences.reshape(2, beams, -1).contiguous()
            tensors[case + "/scores"] = found.sequences_scores.reshape(2, beams).contiguous()
    write_file(folder / "beam_search.safetensors", tensors)
