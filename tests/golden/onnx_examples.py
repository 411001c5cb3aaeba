#!/usr/bin/env python3
"""Writes examples for nn::OnnxModel in the layout of the ONNX standard's tests (tests/onnx_examples.h).

    tests/golden/onnx_examples.py FOLDER           # the standard's own, for every operator
    tests/golden/onnx_examples.py FOLDER --torch   # nets that torch.onnx.export wrote, by both of its ways
    MANTISSA_ONNX_EXAMPLES=FOLDER build/release/onnx_model_test "examples of other programs"

Needs the package onnx, with --torch also torch, torchvision, onnxscript and transformers. Left out are examples whose
results are random, and those where integers of 8 and 16 bits wrap around, which are widened here.
"""

import sys
import warnings
from pathlib import Path

import numpy
import onnx
from onnx import numpy_helper

warnings.filterwarnings("ignore")
random_or_wrapping = ("bernoulli", "training_dropout", "bitshift_left_int8", "bitwise_not_3d")
of_rank_five = ("test_col2im_5d",)  # fold() is of images


def write(path, value, name):
    tensor = value if hasattr(value, "SerializeToString") else numpy_helper.from_array(numpy.asarray(value), name)
    path.write_bytes(tensor.SerializeToString())


def standard(folder):
    from onnx.backend.test.case.node import collect_testcases

    for case in collect_testcases(None):
        if any(part in case.name for part in random_or_wrapping) or case.name in of_rank_five:
            continue
        model = folder / case.name / "model.onnx"
        model.parent.mkdir(parents=True, exist_ok=True)
        onnx.save(case.model, model)
        for k, (inputs, outputs) in enumerate(case.data_sets):
            data = model.parent / f"test_data_set_{k}"
            data.mkdir(exist_ok=True)
            for kind, values in (("input", inputs), ("output", outputs)):
                for i, value in enumerate(values):
                    if value is not None and not isinstance(value, list):
                        write(data / f"{kind}_{i}.pb", value, f"{kind}_{i}")


def save_net(folder, name, net, example, other, axes):
    """Exported with `example`, by both exporters; `other` is what it is run with. axes: the dynamic ones of inputs."""
    import torch

    net.eval()
    with torch.no_grad():
        results = net(*other)
    for dynamo in (False, True):
        model = folder / f"{name}_{'dynamo' if dynamo else 'script'}" / "model.onnx"
        data = model.parent / "test_data_set_0"
        data.mkdir(parents=True, exist_ok=True)
        names = [f"x{i}" for i in range(len(example))]
        if dynamo:
            dims = {a: torch.export.Dim(a, min=2, max=64) for each in axes for a in each.values()}
            shapes = tuple({i: dims[a] for i, a in each.items()} for each in axes)
            torch.onnx.export(net, example, model, dynamo=True, verbose=False, dynamic_shapes=shapes)
        else:
            torch.onnx.export(net, example, model, dynamo=False, opset_version=17, input_names=names,
                              dynamic_axes=dict(zip(names, axes)))
        for i, x in enumerate(other):
            write(data / f"input_{i}.pb", x.numpy(), names[i])
        for i, y in enumerate(results if isinstance(results, tuple) else (results,)):
            write(data / f"output_{i}.pb", y.detach().contiguous().numpy(), f"y{i}")


def torch_nets(folder):
    import torch
    import torchvision
    import transformers

    class Call(torch.nn.Module):
        def __init__(self, net, call):
            super().__init__()
            self.net, self.call = net, call

        def forward(self, *x):
            return self.call(self.net, *x)

    torch.manual_seed(0)
    batch = [{0: "batch"}]
    for name, size in (("resnet18", 96), ("mobilenet_v3_small", 96), ("efficientnet_b0", 96), ("convnext_tiny", 64),
                       ("vit_b_16", 224), ("swin_t", 96), ("shufflenet_v2_x0_5", 96), ("densenet121", 96)):
        net = torchvision.models.get_model(name, weights=None)
        for each, buffer in net.named_buffers():
            if each.endswith("running_mean"):
                buffer.normal_(0, 0.1)
            if each.endswith("running_var"):
                buffer.uniform_(0.5, 1.5)
        if name == "vit_b_16":
            torch.nn.init.normal_(net.heads.head.weight, std=0.05)
        save_net(folder, name, net, (torch.randn(2, 3, size, size),), (torch.randn(3, 3, size, size),), batch)
    net = torchvision.models.segmentation.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None)
    x = (torch.randn(2, 3, 96, 96),)
    save_net(folder, "deeplabv3", Call(net, lambda net, x: net(x)["out"]), x, x, [{}])
    for name in ("LSTM", "GRU", "RNN"):
        layer = getattr(torch.nn, name)(5, 6, num_layers=2, bidirectional=True, batch_first=True)
        net = Call(layer, lambda net, x: net(x)[0])
        save_net(folder, name.lower(), net, (torch.randn(2, 7, 5),), (torch.randn(3, 7, 5),), batch)

    small = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, vocab_size=100)
    def tokens(rows, length):
        mask = torch.ones(rows, length, dtype=torch.int64)
        mask[-1, length // 2:] = 0
        return torch.randint(0, 100, (rows, length)), mask
    of_text = lambda net, i, m: net(input_ids=i, attention_mask=m, return_dict=False)[0]
    of_cache = lambda net, i, m: net(input_ids=i, attention_mask=m, use_cache=False, return_dict=False)[0]
    both = [{0: "batch", 1: "length"}] * 2
    for name, net, call in (
        ("bert", transformers.BertForSequenceClassification(transformers.BertConfig(**small)), of_text),
        ("gpt2", transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=100, n_embd=64, n_layer=2, n_head=4)), of_cache),
        ("llama", transformers.LlamaForCausalLM(transformers.LlamaConfig(num_key_value_heads=2, **small)), of_cache),
    ):
        save_net(folder, name, Call(net.eval(), call), tokens(2, 11), tokens(3, 9), both)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    (torch_nets if "--torch" in sys.argv[2:] else standard)(target)
