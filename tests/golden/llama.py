"""Writes tests/golden/files/llama, by Hugging Face's tokenizers (0.23) and transformers (5.23): BPEs that cut a text as SmolLM,
Llama 3, Qwen 2, Llama 2 and Mistral do, trained on gpt2/text.txt, and what they make of some texts, for tests/bpe_test.cpp;
and tiny models of each kind that samples/llama.cpp reads, with random weights, what they write, for tests/llama_test.sh, and
their logits and losses, for tests/llama_model_test.cpp. Not part of make.py: python3 tests/golden/llama.py, after
pip install tokenizers transformers."""

import json
import pathlib
import random
import shutil

import torch
from safetensors.torch import save_file
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM,
                          Qwen3Config, Qwen3ForCausalLM)

here = pathlib.Path(__file__).parent / "files"
folder = here / "llama"
folder.mkdir(exist_ok=True)
text = (here / "gpt2" / "text.txt").read_bytes().decode()
space = "\u2581"


def split(numbers):
    pattern = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|" + numbers +
               r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def of_bytes(way, specials, normalizer=None, unmade=None):
    tokenizer = Tokenizer(models.BPE(ignore_merges=unmade is not None))
    tokenizer.pre_tokenizer = way
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([text], trainers.BpeTrainer(
        vocab_size=310, min_frequency=2, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    if unmade:  # a token that no merge makes
        made = json.loads(tokenizer.to_str())
        made["model"]["vocab"][unmade] = len(made["model"]["vocab"])
        tokenizer = Tokenizer.from_str(json.dumps(made))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.add_special_tokens(specials)
    return tokenizer


def of_characters(inside_words, metaspace):
    """As convert_slow_tokenizer makes them of SentencePiece's files: <unk>, <s>, </s>, the bytes, and what was learned. With
    inside_words no token reaches from one word into the next."""
    learner = Tokenizer(models.BPE())
    if inside_words:
        learner.pre_tokenizer = pre_tokenizers.Metaspace(replacement=space, prepend_scheme="always", split=True)
    else:
        learner.normalizer = normalizers.Replace(" ", space)
    learner.train_from_iterator([text.replace("é", "e")], trainers.BpeTrainer(vocab_size=150, min_frequency=2, show_progress=False))
    made = json.loads(learner.to_str())["model"]
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + sorted(made["vocab"], key=made["vocab"].get)
    merges = [tuple(m) for m in made["merges"]]
    for n in (2, 4):  # runs of spaces
        if space * n not in tokens:
            tokens.append(space * n)
            merges.append((space * (n // 2), space * (n // 2)))
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges, unk_token="<unk>", fuse_unk=True,
                                     byte_fallback=True))
    if metaspace:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement=space, prepend_scheme="first", split=False)
    else:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(space), normalizers.Replace(" ", space)])
    tokenizer.decoder = decoders.Sequence([decoders.Replace(space, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    begins_with(tokenizer, "<s>")
    return tokenizer


def begins_with(tokenizer, token):
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{token} $A", pair=f"{token} $A {token} $B", special_tokens=[(token, tokenizer.token_to_id(token))])


ends = ["<|begin_of_text|>", "<|end_of_text|>"]
tokenizers = {
    "digits": of_bytes(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]), ends),
    "llama3": of_bytes(split(r"\p{N}{1,3}"), ends, unmade="Ġspeaketh"),
    "qwen2": of_bytes(split(r"\p{N}"), ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], normalizers.NFC()),
    "llama2": of_characters(True, False),
    "mistral": of_characters(False, True),
}
begins_with(tokenizers["llama3"], "<|begin_of_text|>")

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
# What normal form C changes (characters older than 2016, which the library's table ends with), and what SentencePiece's does.
parts = ["e", "o", " ", "   ", "the", "\u0301", "\u0327", "\u0323\u0307", "\u0344", "\u212b", "\u2126", "\u1112\u1161\u11ab", "\ud55c\u11a7",
         "\u0958", "\ufb1d", "\U0001d15e", "<s>", "</s>", "<unk>", "<|im_start|>", space, "<0x41>", "\u0000", "\n", "中"]
for _ in range(100):
    texts.append("".join(draw.choice(parts) for _ in range(draw.randrange(1, 12))))
texts += ["<s>", "<s> a", " <s>a", "a<s>b</s>", space + "a", " a", "<0x41>"]
encoded = {"texts": texts}
for name, tokenizer in tokenizers.items():
    tokenizer.save(str(folder / f"{name}.json"), pretty=False)
    encoded[name] = [tokenizer.encode(t, add_special_tokens=False).ids for t in texts]
for name in ("llama2", "mistral"):
    encoded[name + "_decoded"] = [tokenizers[name].decode(ids, skip_special_tokens=False) for ids in encoded[name]]
(folder / "encoded.json").write_text(json.dumps(encoded))

shown = {c: b for b, c in zip([*range(33, 127), *range(161, 173), *range(174, 256)], [*range(33, 127), *range(161, 173), *range(174, 256)])}
shown |= {256 + i: b for i, b in enumerate(b for b in range(256) if b not in shown.values())}


def bytes_of(tokenizer, ids):
    out, of_characters = b"", tokenizer.token_to_id("<0x00>") is not None
    for piece in map(tokenizer.id_to_token, ids):
        if of_characters:
            is_byte = len(piece) == 6 and piece.startswith("<0x")
            out += bytes([int(piece[3:5], 16)]) if is_byte else piece.replace(space, " ").encode()
        else:
            out += piece.encode() if piece.startswith("<|") else bytes(shown[ord(c)] for c in piece)
    return out


def write_model(name, way, model_class, config, shard="1GB"):
    """A model with its tokenizer, in a folder as Hugging Face has it, and what it makes of the prompt and of some tokens."""
    to = folder / name
    shutil.rmtree(to, ignore_errors=True)
    torch.manual_seed(0)
    tokenizer = tokenizers[way]
    model = model_class(config).eval()
    with torch.no_grad():
        for key, p in model.named_parameters():  # so that every part of it matters
            p.copy_(torch.randn_like(p) * 0.5 + (1 if "norm" in key else 0))
    model.save_pretrained(to, max_shard_size=shard)
    (to / "generation_config.json").unlink(missing_ok=True)
    tokenizer.save(str(to / "tokenizer.json"), pretty=False)

    def write(prompt, file, show_prompt):
        prompt = tokenizer.encode(prompt).ids
        ids = model.generate(torch.tensor([prompt]), max_new_tokens=40, do_sample=False, eos_token_id=None, pad_token_id=0)[0]
        best = model.double()(ids[None]).logits[0].topk(2).values
        model.float()
        print(name, file, "the least distance of the likeliest from the next one:", (best[:, 0] - best[:, 1])[len(prompt) - 1:].min().item())
        begin = len(tokenizer.encode("").ids) if show_prompt else len(prompt)
        out = bytes_of(tokenizer, ids.tolist()[begin:])
        (to / file).write_bytes(out[1:] if show_prompt and way in ("llama2", "mistral") and out.startswith(b" ") else out)

    with torch.no_grad():
        write("Before we proceed any further, hear me", "written.txt", True)
        if name == "qwen2":
            write("<|im_start|>user\nSpeak, speak<|im_end|>\n<|im_start|>assistant\n", "answered.txt", False)

    model.double()
    tokens = torch.randint(0, config.vocab_size, (2, 25), generator=torch.Generator().manual_seed(1))
    logits = model(tokens[:, :-1]).logits
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.005), []
    for _ in range(5):
        loss = torch.nn.functional.cross_entropy(model(tokens[:, :-1]).logits.flatten(0, 1), tokens[:, 1:].flatten())
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(name, losses)
    save_file({"tokens": tokens, "logits": logits.detach().float()[:1].contiguous(), "losses": torch.tensor(losses, dtype=torch.float64)},
              to / "expected.safetensors")


def sizes(way, **more):
    return dict(vocab_size=tokenizers[way].get_vocab_size(), hidden_size=24, intermediate_size=40, num_hidden_layers=2,
                num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256, rms_norm_eps=1e-5) | more


write_model("llama", "llama3", LlamaForCausalLM, LlamaConfig(**sizes(
    "llama3", head_dim=8, tie_word_embeddings=False, bos_token_id=tokenizers["llama3"].token_to_id(ends[0]),
    eos_token_id=tokenizers["llama3"].token_to_id(ends[1]),
    rope_parameters={"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0,
                     "high_freq_factor": 4.0, "original_max_position_embeddings": 32})), shard="60KB")
write_model("biased", "digits", LlamaForCausalLM, LlamaConfig(**sizes("digits", attention_bias=True, tie_word_embeddings=True, eos_token_id=None)))
write_model("mistral", "mistral", MistralForCausalLM, MistralConfig(**sizes("mistral", sliding_window=8, head_dim=8)))
write_model("llama2", "llama2", LlamaForCausalLM, LlamaConfig(**sizes("llama2")))
write_model("qwen2", "qwen2", Qwen2ForCausalLM, Qwen2Config(**sizes("qwen2", tie_word_embeddings=True, bos_token_id=0)))
write_model("qwen3", "qwen2", Qwen3ForCausalLM, Qwen3Config(**sizes("qwen2", head_dim=10, num_key_value_heads=1)))
