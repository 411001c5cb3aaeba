"""Writes tests/golden/files/gpt2: a byte-level BPE that Hugging Face's tokenizers (0.23) trained on text.txt, which lies
there, in both kinds of files, and what it makes of some texts, for tests/bpe_test.cpp; a tiny GPT-2 with random weights,
as transformers (5.23) saves it, and what that writes, for tests/gpt2_test.sh. Not part of make.py: python3
tests/golden/gpt2.py, after pip install tokenizers transformers."""

import json
import pathlib
import random

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel

folder = pathlib.Path(__file__).parent / "files" / "gpt2"
text = (folder / "text.txt").read_bytes().decode()

tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
tokenizer.train_from_iterator([text], trainers.BpeTrainer(
    vocab_size=399, min_frequency=2, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
tokenizer.add_special_tokens(["<|endoftext|>"])  # at the end, as GPT-2 has it
tokenizer.save(str(folder / "tokenizer.json"))
tokenizer.model.save(str(folder))
vocabulary = json.loads((folder / "vocab.json").read_text())
vocabulary["<|endoftext|>"] = 399
(folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False))

draw = random.Random(0)
texts = ["", " ", "  ", "\n\n ", "Hello, world", "a<|endoftext|>b<|endoftext|>", "<|endoftext", text[:3000],
         "We'll they'RE it's 'tis don't '", "x" * 50, "12 345,678.90", "tab\tand\r\nlines\n\n\n  end  "]
for _ in range(60):
    start = draw.randrange(len(text) - 100)
    texts.append(text[start:start + draw.randrange(100)])
letters = " \n'aest123!é中\u00a0\u3000😀\u0301Ω٣Ⅷ\u200b\u2028ǅ\U000e0001"
for _ in range(60):
    texts.append("".join(draw.choice(letters) for _ in range(draw.randrange(40))))
for _ in range(60):  # any characters
    code_points = [draw.randrange(0x110000 if draw.random() < 0.3 else 0x3000) for _ in range(draw.randrange(30))]
    texts.append("".join(chr(c) for c in code_points if not 0xD800 <= c < 0xE000))
cases = [{"text": t, "ids": tokenizer.encode(t).ids} for t in texts]
(folder / "encoded.json").write_text(json.dumps(cases))

torch.manual_seed(0)
config = GPT2Config(vocab_size=400, n_positions=64, n_embd=16, n_layer=2, n_head=2, bos_token_id=399, eos_token_id=399)
model = GPT2LMHeadModel(config).eval()
with torch.no_grad():
    for name, p in model.named_parameters():  # so that every part of it matters
        p.copy_(torch.randn_like(p) * 0.5 + (1 if "ln_" in name and "weight" in name else 0))
model.save_pretrained(folder)
(folder / "generation_config.json").unlink(missing_ok=True)
prompt = torch.tensor([tokenizer.encode("Before we proceed any further, hear me").ids])
ids = model.generate(prompt, max_new_tokens=40, do_sample=False, eos_token_id=None, pad_token_id=399)[0]
with torch.no_grad():
    best = model.double()(ids[None]).logits[0].topk(2).values
print("the least distance of the likeliest from the next one:", (best[:, 0] - best[:, 1])[prompt.shape[1] - 1:].min().item())
shown = {c: b for b, c in zip([*range(33, 127), *range(161, 173), *range(174, 256)], [*range(33, 127), *range(161, 173), *range(174, 256)])}
shown |= {256 + i: b for i, b in enumerate(b for b in range(256) if b not in shown.values())}
pieces = [tokenizer.id_to_token(i) for i in ids.tolist()]
(folder / "written.txt").write_bytes(bytes(shown[ord(c)] for c in "".join(pieces)))
