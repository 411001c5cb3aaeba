"""Writes tests/golden/files/llama: byte-level BPEs that cut a text as SmolLM, Llama 3 and Qwen 2 do, trained by Hugging Face's
tokenizers (0.23) on gpt2/text.txt, and what they make of some texts, for tests/bpe_test.cpp; a tiny Llama with random
weights in two files, as transformers (5.23) saves it, and what that writes, for tests/llama_test.sh. Not part of make.py:
python3 tests/golden/llama.py, after pip install tokenizers transformers."""

import json
import pathlib
import random

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM

here = pathlib.Path(__file__).parent / "files"
folder = here / "llama"
folder.mkdir(exist_ok=True)
text = (here / "gpt2" / "text.txt").read_bytes().decode()


def split(numbers):
    pattern = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|" + numbers +
               r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


ways = {"digits": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                           pre_tokenizers.ByteLevel(add_prefix_space=False)]),
        "llama3": split(r"\p{N}{1,3}"), "qwen2": split(r"\p{N}")}
draw = random.Random(0)
texts = ["", " ", "  ", "\n\n ", "Hello, world", "a<|end_of_text|>b", "We'll they'RE IT'S 'tis don't ' 'ſx o'Dd", "x" * 50,
         "12 345,678.90 1234567", " 1  2", "tab\tand\r\nlines\n\n\n  end  ", "a \n b\n\tc \r\n", "!!\n\n?\r", "(word) \"x\" $5", text[:2000]]
letters = " \n\r\t'aesSTdD12!é中\u00a0\u3000😀\u0301Ω٣Ⅷ\u200b\u2028ǅſ."
for _ in range(120):
    texts.append("".join(draw.choice(letters) for _ in range(draw.randrange(30))))
for _ in range(40):  # any characters
    code_points = [draw.randrange(0x110000 if draw.random() < 0.3 else 0x3000) for _ in range(draw.randrange(20))]
    texts.append("".join(chr(c) for c in code_points if not 0xD800 <= c < 0xE000))
texts.append("who speaketh, speaketh")
encoded = {"texts": texts}
for name, way in ways.items():
    tokenizer = Tokenizer(models.BPE(ignore_merges=name == "llama3"))
    tokenizer.pre_tokenizer = way
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([text], trainers.BpeTrainer(
        vocab_size=310, min_frequency=2, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    if name == "llama3":  # a token that no merge makes
        made = json.loads(tokenizer.to_str())
        made["model"]["vocab"]["ĠspeakĠ"[:-1] + "eth"] = len(made["model"]["vocab"])
        tokenizer = Tokenizer.from_str(json.dumps(made))
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>"])
    tokenizer.save(str(folder / ("tokenizer.json" if name == "llama3" else f"{name}.json")), pretty=False)
    encoded[name] = [tokenizer.encode(t).ids for t in texts]
(folder / "encoded.json").write_text(json.dumps(encoded))

torch.manual_seed(0)
tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
size = tokenizer.get_vocab_size()
config = LlamaConfig(
    vocab_size=size, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    head_dim=8, max_position_embeddings=256, tie_word_embeddings=False, bos_token_id=size - 2, eos_token_id=size - 1, rms_norm_eps=1e-5,
    rope_parameters={"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0,
                     "high_freq_factor": 4.0, "original_max_position_embeddings": 32})
model = LlamaForCausalLM(config).eval()
with torch.no_grad():
    for name, p in model.named_parameters():  # so that every part of it matters
        p.copy_(torch.randn_like(p) * 0.5 + (1 if "norm" in name else 0))
model.save_pretrained(folder, max_shard_size="60KB")
(folder / "generation_config.json").unlink(missing_ok=True)
prompt = torch.tensor([[size - 2] + tokenizer.encode("Before we proceed any further, hear me").ids])
ids = model.generate(prompt, max_new_tokens=40, do_sample=False, eos_token_id=None, pad_token_id=size - 1)[0]
with torch.no_grad():
    best = model.double()(ids[None]).logits[0].topk(2).values
print("the least distance of the likeliest from the next one:", (best[:, 0] - best[:, 1])[prompt.shape[1] - 1:].min().item())
shown = {c: b for b, c in zip([*range(33, 127), *range(161, 173), *range(174, 256)], [*range(33, 127), *range(161, 173), *range(174, 256)])}
shown |= {256 + i: b for i, b in enumerate(b for b in range(256) if b not in shown.values())}
pieces = [tokenizer.id_to_token(i) for i in ids.tolist()[1:]]
special = {"<|begin_of_text|>", "<|end_of_text|>"}
(folder / "written.txt").write_bytes(b"".join(p.encode() if p in special else bytes(shown[ord(c)] for c in p) for p in pieces))
