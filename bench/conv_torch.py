"""PyTorch on the layers of bench/conv_bench.cpp, channels-last: milliseconds and GFLOP/s of each pass.

    python3 bench/conv_torch.py [threads=2] [f32|bf16] [part of a layer's name] [seconds for each]
"""
import re
import sys
import time
from pathlib import Path

import torch

aten = torch.ops.aten


def layers():
    """The table of conv_bench.cpp: (name, batch, in, out, size, kernel, stride, padding, groups)."""
    text = (Path(__file__).parent / "conv_bench.cpp").read_text()
    for name, numbers in re.findall(r'\{"([^"]+)", ([\d, ]+)\}', text):
        values = [int(n) for n in numbers.split(",")]
        yield name, *(values + [1])[:8]


def best_time(run, seconds):
    run()
    best, end, runs = 1e9, time.perf_counter() + seconds, 0
    while time.perf_counter() < end or runs < 3:
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
        runs += 1
    return best


def main():
    words = sys.argv[1:] + ["2", "f32", "", "0.03"][len(sys.argv) - 1:]
    torch.set_num_threads(int(words[0]))
    torch.set_flush_denormal(True)
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[words[1]]
    last = torch.channels_last
    for name, batch, ins, outs, size, kernel, stride, padding, groups in layers():
        if words[2] not in name:
            continue
        x = torch.randn(batch, ins, size, size).to(dtype).to(memory_format=last)
        w = torch.randn(outs, ins // groups, kernel, kernel).to(dtype).to(memory_format=last)
        s, p = [stride] * 2, [padding] * 2
        g = torch.randn_like(torch.nn.functional.conv2d(x, w, None, stride, padding, 1, groups)).contiguous(memory_format=last)
        flops = 2 * g.numel() * ins // groups * kernel * kernel

        def gradient(mask):
            return aten.convolution_backward(g, x, w, None, s, p, [1, 1], False, [0, 0], groups, mask)

        passes = {
            "forward": lambda: torch.nn.functional.conv2d(x, w, None, stride, padding, 1, groups),
            "input gradient": lambda: gradient([True, False, False]),
            "weight gradient": lambda: gradient([False, True, False]),
        }
        for label, run in passes.items():
            with torch.no_grad():
                t = best_time(run, float(words[3]))
            print(f"| {name} | {label} | {t * 1e3:.3f} ms {flops / t * 1e-9:.0f} |", flush=True)


main()
