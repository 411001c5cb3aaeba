#!/usr/bin/env python3
"""The PyTorch side of the benchmark: serves the requests of bench/protocol.py on standard input and output."""

import argparse
import gc
import os
import resource
import sys
import time
import warnings

warnings.filterwarnings("ignore")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


def status_bytes(field):
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith(field + ":"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", default="eager")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    import torch

    import protocol
    import torch_inference
    import torch_operators
    import torch_session

    if args.mode not in torch_session.MODES:
        sys.exit(f"--mode is one of {', '.join(torch_session.MODES)}; got {args.mode}")
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.benchmark = True
    session, calls = None, [None]

    def answer(request):
        nonlocal session
        what = request["do"]
        if what == "MEMORY":
            found = {"rss": status_bytes("VmRSS"), "peak_rss": status_bytes("VmHWM"), "peak_allocated": 0}
            found["peak_reserved"] = 0
            if torch.cuda.is_available():
                found["peak_allocated"] = torch.cuda.max_memory_allocated()
                found["peak_reserved"] = torch.cuda.max_memory_reserved()
            if request.get("reset"):
                with open("/proc/self/clear_refs", "w") as f:
                    f.write("5")  # VmHWM begins anew
            return found
        if what == "OPERATOR":
            name, device = request["name"], request["device"]
            inference = name.startswith("infer ")
            calls[0] = torch_inference.make(name, device, args.mode) if inference else torch_operators.make(name, device)
            result = calls[0]().detach().cpu().double()
            return {"sum": result.sum().item(), "absolute": result.abs().sum().item()}
        if what == "CALLS":
            call, before, begin = calls[0], resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
            for _ in range(request["count"]):
                last = call()
            if last.is_cuda:
                torch.cuda.synchronize()
            seconds = time.perf_counter() - begin
            return {
                "seconds": seconds,
                "involuntary": resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw - before.ru_nivcsw,
            }
        if what == "INIT":
            session = None
            torch._dynamo.reset() if args.mode.startswith("compile") else None
            gc.collect()  # a session is part of a cycle
            if torch.cuda.is_available():
                torch.cuda.empty_cache()  # several workers share the GPU
            session = torch_session.Session(request["spec"], args.mode)
            return session.description()
        if session is None:
            raise RuntimeError(f"{what} before INIT")
        if what in ("WARM", "RUN"):
            return session.run(request["steps"])
        if what == "EVAL":
            return session.evaluate()
        if what == "GRADIENTS":
            return {"loss": session.gradients(request["step"], request["path"])["loss"]}
        if what in ("SNAPSHOT", "DUMP"):
            return session.snapshot(request["path"])
        raise RuntimeError(f"no request is called {what}")

    answers = os.fdopen(os.dup(1), "w")  # whatever else prints goes to standard error
    os.dup2(2, 1)
    protocol.serve(
        {
            "ready": True,
            "framework": "torch",
            "version": torch.__version__,
            "mode": args.mode,
            "threads": torch.get_num_threads(),
            "rss": status_bytes("VmRSS"),
        },
        answer,
        sink=answers,
    )


if __name__ == "__main__":
    main()
