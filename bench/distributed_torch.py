#!/usr/bin/env python3
"""What bench/distributed_bench.cpp measures, of PyTorch with gloo: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are set."""

import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks


def milliseconds(warm_up, times, f):
    seen = []
    for i in range(warm_up + times):
        begin = time.perf_counter()
        f()
        if i >= warm_up:
            seen.append(1000 * (time.perf_counter() - begin))
    return statistics.median(seen)


def step(parallel, hook=None):
    torch.manual_seed(1)
    nn = torch.nn
    net = nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
    if parallel:
        net = nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=True)
        if hook:
            net.register_comm_hook(None, hook)
    sgd = torch.optim.SGD(net.parameters(), lr=0.01)
    image, label = torch.randn(128, 784), torch.randint(0, 10, (128,))

    def once():
        sgd.zero_grad()
        nn.functional.cross_entropy(net(image), label).backward()
        sgd.step()

    return milliseconds(5, 25, once)


torch.set_num_threads(1)
dist.init_process_group("gloo")
first = dist.get_rank() == 0
for size in (1 << 10, 1 << 13, 1 << 16, 1 << 20, 10 << 20, 100 << 20):
    x = torch.zeros(size // 4)
    times = 5 if size > 50 << 20 else 20 if size > 5 << 20 else 100 if size > 1 << 18 else 1000
    ms = milliseconds(times // 5 + 1, times, lambda: dist.all_reduce(x))
    if first:
        print("all_reduce", size, f"{ms:.4f}")
for name, arguments in (("step", (True,)), ("step_bf16", (True, default_hooks.bf16_compress_hook)), ("step_alone", (False,))):
    try:
        ms = step(*arguments)
    except RuntimeError as e:  # not every version of gloo has sums of bf16
        ms = float("nan")
    dist.barrier()
    if first:
        print(name, 0, f"{ms:.4f}")
dist.destroy_process_group()
