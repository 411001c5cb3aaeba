"""What bench/inference.cpp has, in PyTorch: eager, with channels-last tensors, or compiled."""

import torch
import torch.nn.functional as F

import models
from torch_operators import draw


def tokens(batch, length):
    return (torch.arange(batch * length) * 7 % 65).reshape(batch, length)


def make(name, device, mode):
    words = name.split()[1:]
    dtype, batch = {"f32": torch.float32, "bf16": torch.bfloat16}[words[-1]], int(words[-2])
    model, nhwc = words[0], mode.endswith("nhwc")
    if model == "linear":
        inner, outer = int(words[1]), int(words[2])
        x, w = draw([batch, inner], device).to(dtype), draw([outer, inner], device, 2).to(dtype)
        return inference(lambda: F.linear(x, w))
    net = models.MODELS[model]()
    with torch.no_grad():
        for key, p in net.named_parameters():
            if p.dim() > 1:
                p.copy_(draw(list(p.shape), "cpu", sum(key.encode())) * (4 / (p.numel() / p.shape[0]) ** 0.5))
            elif key.endswith("bias"):
                p.zero_()
    net = net.to(device, dtype).eval()
    if model == "gpt":
        length = int(words[1])
        x = tokens(batch, length).to(device)
        net.cos, net.sin = net.cos[:length], net.sin[:length]
    else:
        pixels = [784] if model == "mlp" else [1, 28, 28] if model == "cnn" else [3, 32, 32]
        x = draw([batch, *pixels], device, 99).to(dtype)
    if nhwc:
        net = net.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x
    if mode.startswith("compile"):
        torch._dynamo.reset()
        net = torch.compile(net)
    return inference(lambda: net(x))


def inference(body):
    def call():
        with torch.inference_mode():
            return body()

    return call
