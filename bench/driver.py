#!/usr/bin/env python3
"""Runs Mantissa and PyTorch on the same work in turns and writes one JSON with everything that was measured.

    bench/driver.py --worker build/release/mantissa_bench [--quick] [--workload NAME...] [--out FILE]

bench/run.sh builds the worker and calls this. docs/performance.md says what is measured and what is proven.
"""

import argparse
import datetime
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import extras  # noqa: E402
import gate  # noqa: E402
import operators  # noqa: E402
import proofs  # noqa: E402
import protocol  # noqa: E402
import training  # noqa: E402
import workloads  # noqa: E402

OK, INCOMPLETE, BAD_INPUT = 0, 1, 2
PARTS = ("workloads", "memory", "operators", "build")
MOST_STEPS, MOST_ORDER_BYTES = 60_000, 32 << 20


class AnotherGpu(Exception):
    """What --resume would put into one result was measured on two GPUs."""


def complain(*parts):
    print("bench:", *parts, file=sys.stderr, flush=True)


def wanted_torch():
    with open(os.path.join(HERE, "requirements.txt")) as f:
        return re.search(r"^torch==(\S+)", f.read(), re.M)[1]


def arguments():
    p = argparse.ArgumentParser(description="Benchmarks Mantissa against PyTorch.")
    p.add_argument("--worker", required=True, help="the program mantissa_bench")
    p.add_argument("--workload", nargs="+", default=[], metavar="NAME", help=", ".join(workloads.WORKLOADS))
    p.add_argument(
        "--precision", choices=("f32", "bf16", "both"), default=None, help="by default both; with --quick f32"
    )
    p.add_argument(
        "--modes",
        nargs="+",
        default=None,
        metavar="MODE",
        help="of PyTorch: eager eager-nhwc amp amp-nhwc compile compile-amp cudagraph cudagraph-amp compile-cudagraph "
        "compile-cudagraph-amp",
    )
    p.add_argument("--quick", action="store_true", help="few blocks, eager PyTorch alone, proofs 1, 2 and 5")
    p.add_argument("--parts", nargs="+", choices=PARTS, help="by default all; with --quick or --workload fewer")
    p.add_argument("--proofs", action="store_true", help="all seven proofs also with --quick")
    p.add_argument("--prepare", action="store_true", help="measure nothing: let PyTorch compile and fill its cache")
    p.add_argument("--blocks", type=int, default=0)
    p.add_argument("--seconds", type=float, default=0, help="after which no block of a workload begins")
    p.add_argument("--turn", type=float, default=0, metavar="SECONDS")
    p.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    p.add_argument(
        "--peer-device", choices=("cpu", "cuda"), default=None, help="where PyTorch computes; by default there too"
    )
    p.add_argument(
        "--cores", default="", help="such as 0,1; by default the first two that this program may use, with a GPU all"
    )
    p.add_argument(
        "--resume", action="store_true", help="keep the workloads that --out has already, and measure the others"
    )
    p.add_argument("--seed", type=int, default=None)
    p.add_argument("--out", default="", help="the result; by default bench_result.json in the current folder")
    args = p.parse_args()
    unknown = [w for w in args.workload if w not in workloads.WORKLOADS]
    if unknown:
        p.error(f"no workload is called {unknown[0]}; there are {', '.join(workloads.WORKLOADS)}")
    if args.parts and "memory" in args.parts and "workloads" not in args.parts:
        p.error("memory is measured with the workloads: --parts workloads memory")
    args.named = bool(args.workload)
    args.workload = args.workload or workloads.of_device(args.device)
    args.peer_device = args.peer_device or args.device
    return args


def pin(args):
    """Pins this program, and with it all workers. Returns the cores and whether it worked."""
    allowed = sorted(os.sched_getaffinity(0))
    usual = allowed[:2] if args.device == "cpu" else allowed
    try:
        cores = [int(c) for c in args.cores.split(",")] if args.cores else usual
        os.sched_setaffinity(0, cores)
        return cores, True
    except (OSError, ValueError) as e:
        complain(f"cannot pin to the cores {args.cores or usual}: {e}; going on without")
        return usual, False


class Bench:
    def __init__(self, args):
        self.args, self.problems, self.live = args, [], {}
        self.parts = args.parts or (PARTS[:1] if args.quick else PARTS[:2] if args.named else PARTS)
        self.gate = gate.Gate(cores=os.cpu_count())
        self.cores, pinned = pin(args)
        if not pinned:
            self.problems.append("not pinned")
        self.environment = dict(
            os.environ,
            OMP_NUM_THREADS=str(len(self.cores)),
            MANTISSA_NUM_THREADS=str(len(self.cores)),
            PYTHONHASHSEED="0",
        )
        cache = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))  # what compiling costs is paid once
        self.environment.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(cache, "mantissa/inductor"))
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):  # before the driver itself imports PyTorch
            os.environ[name] = str(len(self.cores))
        self.out = args.out or "bench_result.json"
        self.log = open(self.out + ".log", "wb")  # what workers say on standard error
        self.seed = args.seed if args.seed is not None else int.from_bytes(os.urandom(4), "little")
        self.folder = tempfile.mkdtemp(prefix="mantissa-bench-", dir=self.memory_folder())
        self.result = {"meta": self.meta(), "workloads": {}}

    def memory_folder(self):
        """Where files lie in memory, if there is enough: of GPT-2 there are several snapshots of 1.5 GB at a time."""
        least = (1 if self.args.device == "cpu" else 16) << 30
        usable = os.access("/dev/shm", os.W_OK) and shutil.disk_usage("/dev/shm").free > least
        return "/dev/shm" if usable else None

    def meta(self):
        def output(*command):
            try:
                return subprocess.run(command, capture_output=True, text=True, cwd=HERE, timeout=20).stdout.strip()
            except (OSError, subprocess.TimeoutExpired):
                return ""

        model = next(
            (line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), ""
        )
        return {
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "commit": output("git", "rev-parse", "HEAD") or os.environ.get("MANTISSA_COMMIT", ""),
            "changed": bool(output("git", "status", "--porcelain", "--untracked-files=no")),
            "cpu": model,
            "cores": self.cores,
            "kernel": platform.release(),
            "python": platform.python_version(),
            "compiler": output("c++", "--version").split("\n")[0],
            "seed": self.seed,
            "quick": self.args.quick,
            "device": self.args.device,
            "isa": os.environ.get("MANTISSA_ISA", ""),
        }

    def resume(self):
        """Goes on from what --out has. Of two GPUs there is no one result."""
        with open(self.out) as f:
            before = json.load(f)
        meta, gpu = before["meta"], self.result["meta"]["gpu"]
        if meta.get("gpu", "") != gpu:
            raise AnotherGpu(f"{self.out} was begun on {meta.get('gpu') or 'no GPU'}, and this is {gpu or 'none'}")
        kept = [w for w in before["workloads"].values() if "unproven" not in w] or before.get("operators")
        if kept and meta["commit"] != self.result["meta"]["commit"]:
            self.problem(f"{self.out} was begun at commit {meta['commit'][:10]}: a run of two commits")
        self.result.update(
            {k: before[k] for k in ("workloads", "operators", "sizes", "compile_seconds") if k in before}
        )

    def save(self):
        self.result["meta"]["problems"] = self.problems
        text = json.dumps(self.result, indent=1)
        text = re.sub(
            r"\[\s+([^\[\]{}]*?)\s+\]", lambda m: "[" + re.sub(r"\s+", " ", m[1]) + "]", text
        )  # short lists on one line
        with open(self.out + ".tmp", "w") as f:
            f.write(text + "\n")
        os.replace(self.out + ".tmp", self.out)

    def problem(self, what):
        complain(what)
        self.problems.append(str(what))

    # --- workers: started once, kept for all workloads ---
    def command(self, side):
        if training.ours(side):
            return [os.path.abspath(self.args.worker)]
        return [
            sys.executable,
            os.path.join(HERE, "torch_worker.py"),
            "--mode",
            side,
            "--threads",
            str(len(self.cores)),
        ]

    def workers(self, sides):
        started = {}
        for side in sides:
            if side in self.live and not self.live[side].alive():
                del self.live[side]
            if side not in self.live:
                try:
                    started[side] = protocol.Worker(
                        side, self.command(side), environment=self.environment, timeout=120
                    )
                except protocol.WorkerError as e:
                    self.problem(e)
        for side, worker in started.items():
            try:
                self.live[side] = worker.wait_ready()
            except protocol.WorkerError as e:
                self.problem(e)
        return {s: self.live[s] for s in sides if s in self.live}

    def sides(self, workload):
        pictures = workload["model"] in ("cnn", "lenet", "simple", "resnet18")
        names = []
        for precision in self.precisions():
            names.append("mantissa" if precision == "f32" else "mantissa-bf16")
            if self.args.device == "cuda":
                names.append("mantissa-graph" if precision == "f32" else "mantissa-graph-bf16")
            modes = ["eager", "eager-nhwc"] if precision == "f32" else ["amp", "amp-nhwc"]
            if not self.args.quick:
                modes.append("compile" if precision == "f32" else "compile-amp")
            if self.args.device == "cuda" and not self.args.quick:
                end = "" if precision == "f32" else "-amp"
                modes += [] if workload.get("large") else ["cudagraph" + end]
                modes.append("compile-cudagraph" + end)
            if self.args.modes is not None:
                modes = [m for m in self.args.modes if training.precision_of(m) == precision]
            names += [m for m in modes if pictures or not m.endswith("nhwc")]
        return names

    def workload(self, name):
        """Trains, then measures memory. What --out has of either already stays as it is."""
        import bench_data
        import reference

        workload, quick = workloads.WORKLOADS[name], self.args.quick
        folder = os.path.join(self.folder, name)
        os.makedirs(folder)
        steps = min(MOST_STEPS, MOST_ORDER_BYTES // (8 * workload["batch"]))
        spec, source = bench_data.prepare(folder, workload, self.seed, steps)
        spec["device"] = self.args.device
        peer = dict(spec, device=self.args.peer_device, micro=workload.get("micro", 1))
        ref = reference.Reference(peer, self.seed, os.path.join(folder, "init"))
        blocks = self.args.blocks or (3 if quick else 15)
        settings = {
            "blocks": blocks,
            "seconds": self.args.seconds or (20 if quick else 150),
            "turn": self.turn_seconds(),
            "redo": 2 if quick else 4,
            "ceilings": self.ceilings(),
            "peer_device": self.args.peer_device,
        }
        settings["proofs"] = (2,) if quick and not self.args.proofs else (2, 3, 4, 5, 6, 7)
        if "workloads" in self.lacking(name):
            workers, salt = self.workers(self.sides(workload)), bench_data.Salt(spec, self.seed)
            run = training.Training(workers, ref, salt, self.gate, spec, settings, self.seed, folder)
            items = workload["batch"] * workload.get("items", 1)
            about = dict(title=workload["title"], data=source, blocks_wanted=blocks, items_per_step=items)
            self.train(name, run, about)
        if self.lacking(name) == ["memory"]:
            if self.args.device == "cuda":
                self.dismiss()  # their memory is the GPU's, too
            self.result["workloads"][name]["memory"] = found = self.memory(spec, ref.spec["init"], folder)
            self.report_memory(found)
        shutil.rmtree(folder)

    def lacking(self, name):
        """The parts that are asked for and that the result does not have, or not to the end of its proofs."""
        found = self.result["workloads"].get(name, {"unproven": "not measured"})
        missing = {"workloads": "unproven" in found, "memory": "memory" not in found}
        return [part for part in self.parts if missing.get(part)]

    def train(self, name, run, about):
        """Where the time ends or a proof breaks off, what was measured by then is kept, as not proven."""
        interrupted = False
        try:
            result = run.all()
        except (Exception, KeyboardInterrupt) as e:
            if not run.blocks:
                raise
            interrupted = isinstance(e, KeyboardInterrupt)
            why = "interrupted" if interrupted else f"{type(e).__name__}: {e}".splitlines()[0]
            result = dict(run.result(), unproven=why)
        self.result["workloads"][name] = dict(result, **about)
        self.save()
        self.report(name, self.result["workloads"][name])
        if "unproven" in result:
            self.problem(f"{name}: not proven: {result['unproven']}")
        if interrupted:
            raise KeyboardInterrupt

    def turn_seconds(self):
        return self.args.turn or (0.1 if self.args.quick else 0.15)

    def ceilings(self):
        """What this machine can do, the most seen in this session: by loops of the worker, and by PyTorch's products,
        which may use units that those loops do not."""
        import reference

        peer = reference.ceilings(self.args.peer_device)
        on_cpu = self.args.peer_device == "cpu"
        found = self.workers(["mantissa"])["mantissa"].ask("CEILINGS", 120) if on_cpu else peer
        before = self.result.setdefault("ceilings", found)
        for precision in ("f32", "bf16"):
            before[precision] = max(before[precision], found[precision], peer[precision])
        before["copies"] = [[size, max(a, b)] for (size, a), (_, b) in zip(before["copies"], found["copies"])]
        return before

    def memory(self, spec, init, folder):
        """Every step trains on the first batch: more of the mapped data would only add the same to all sides."""
        import numpy as np

        order = np.fromfile(spec["order"]["path"], np.int64).reshape(spec["order"]["sizes"])
        again = os.path.join(folder, "same")
        np.repeat(order[:1], extras.STEPS, 0).tofile(again)
        spec = dict(spec, order={"path": again, "dtype": "i64", "sizes": [extras.STEPS, order.shape[1]]})
        found = {}
        for side in self.sides_of_memory():
            try:
                start = lambda: protocol.Worker(
                    side, self.command(side), environment=self.environment, timeout=120
                )  # noqa: E731, B023
                device = self.args.device if training.ours(side) else self.args.peer_device
                init_spec = {"init": init, "precision": training.precision_of(side), "device": device}
                found[side] = extras.memory(start, dict(init_spec, captured=training.captured(side)), spec)
            except protocol.WorkerError as e:
                self.problem(f"memory: {e}")
        return found

    def sides_of_memory(self):
        wanted = {"f32": ["mantissa", "eager"], "bf16": ["mantissa-bf16", "amp"]}
        if self.args.device == "cuda":
            wanted = {"f32": [*wanted["f32"], "mantissa-graph"], "bf16": [*wanted["bf16"], "mantissa-graph-bf16"]}
        return [s for p in self.precisions() for s in wanted[p]]

    def precisions(self):
        asked = self.args.precision or ("f32" if self.args.quick else "both")
        return ("f32", "bf16") if asked == "both" else (asked,)

    def operators(self):
        workers = self.workers(["mantissa", "eager"])
        settings = {"turn": 0.02 if self.args.quick else 0.05, "blocks": 3 if self.args.quick else 10}
        table = self.result.setdefault("operators", {})
        for name in operators.OPERATORS:
            if name in table:
                continue
            try:
                table[name] = operators.measure(name, workers, self.gate, settings, self.seed, self.args.device)
            except (protocol.WorkerError, proofs.Failed) as e:
                self.problem(f"operator {e}")
                if not all(w.alive() for w in workers.values()):
                    workers = self.workers(["mantissa", "eager"])
                continue
            r = table[name]
            ours, theirs = r["us"]["mantissa"], r["us"]["eager"]
            print(f"  {name:34} {ours:11.3f} us  PyTorch {theirs:11.3f}  {r['ratio']['ratio']:6.2f}x", flush=True)
            self.save()

    def report(self, name, result):
        print(f"{result['title']} ({result['data']}): {result['steps_per_turn']} steps a turn,", end=" ")
        print(f"{len(result['blocks'])} blocks, {result['redone']} redone")
        for side, s in result["sides"].items():
            if ms := s["ms"]:
                spread = f"(least {ms['min']:.3f}, p90 {ms['p90']:.3f}, first step {s['first_step'] * 1e3:.0f})"
                print(f"  {side:22} {ms['median']:9.3f} ms  {spread}")
        for side, s in result["sides"].items():
            if s["ms"] and self.args.device == "cuda":
                print(f"  {side:22} {1e3 * result['items_per_step'] / s['ms']['median']:12.0f} items/s")
        for side, t in result["left_out"].items():
            print(f"  {side:14} {1e3 * t:9.3f} ms, over twice as long as another mode: no turns")
        for pair, r in result["ratios"].items():
            print(f"  {pair:30} {r['ratio']:.2f}x  [{r['low']:.2f}, {r['high']:.2f}]")
        for side, s in result["sides"].items():
            if training.ours(side):
                for number, line in sorted(s["proofs"].items()):
                    print(f"  proof {number}, {side}: {line}")
        if result["missing"]:
            self.problems.append(f"{name}: no result of {', '.join(result['missing'])}")
        thrown = sum(not quiet for block in result["blocks"] for turns in block.values() for _, quiet in turns)
        if thrown:
            most = 100 * max(share for share, _ in result["loads"])
            complain(
                f"busy machine: {thrown} turns of {name} were disturbed, others used up to {most:.0f} % of it;",
                "too many to leave out: the ratios above are not to be trusted" if result["busy"] else "left out",
            )
        if result["busy"]:
            self.problems.append(f"{name}: busy machine")

    def report_memory(self, found):
        for side, m in found.items():
            peak = f"peak {m['peak'] / 1e6:.0f} MB, {m['beyond'] / 1e6:.0f} beyond the start"
            device = f", reserved on the device {m['reserved'] / 1e6:.0f} MB" if self.args.device == "cuda" else ""
            print(f"  memory {side:14} {peak}{device}, first step after {m['to_first_step']:.2f} s")

    def everything(self):
        import torch

        # Where there is a GPU, PyTorch is the one that came with it: the result says which.
        if self.args.peer_device == "cpu" and torch.__version__.split("+")[0] != wanted_torch():
            self.problem(
                f"PyTorch {torch.__version__} is installed, bench/requirements.txt asks for {wanted_torch()}; "
                "going on with it"
            )
        torch.set_num_threads(len(self.cores))
        torch.set_flush_denormal(True)
        self.result["meta"]["torch"] = torch.__version__
        on_gpu = self.args.device == "cuda" and torch.cuda.is_available()
        self.result["meta"]["gpu"] = torch.cuda.get_device_name(0) if on_gpu else ""
        if self.args.resume and os.path.exists(self.out):
            self.resume()
        if self.args.prepare:
            for name in self.args.workload:
                self.guarded(name, self.prepare)
            return
        if "workloads" in self.parts:
            for name in self.args.workload:
                if self.lacking(name):
                    self.guarded(name, self.workload)
        if "operators" in self.parts:
            self.guarded("operators", lambda _: self.operators())
        if "build" in self.parts:
            self.guarded("sizes", lambda _: self.build())

    def guarded(self, name, action):
        """What fails is said in one line, and the rest goes on."""
        begin = time.monotonic()
        try:
            action(name)
        except ImportError:
            raise
        except Exception as e:
            self.problem(f"{name}: {type(e).__name__}: {e}".splitlines()[0])
        print(f"  {name} took {time.monotonic() - begin:.0f} s", flush=True)
        if not self.args.prepare:
            self.save()

    def prepare(self, name):
        """Lets PyTorch compile, so that a later run finds its cache filled."""
        import bench_data
        import reference

        folder = os.path.join(self.folder, name)
        os.makedirs(folder)
        spec, _ = bench_data.prepare(folder, workloads.WORKLOADS[name], self.seed, 8)
        spec["device"] = self.args.device
        init = reference.Reference(spec, self.seed, os.path.join(folder, "init")).spec["init"]
        sides = {"f32": "compile", "bf16": "compile-amp"}
        for side, worker in self.workers([sides[p] for p in self.precisions()]).items():
            worker.ask("INIT", 120, spec=dict(spec, init=init, precision=training.precision_of(side)))
            first = worker.ask("RUN", 1800, steps=1)["seconds"]
            worker.ask("RUN", 600, steps=2)
            print(f"  {side:14} first step {first:.1f} s", flush=True)

    def build(self):
        build = os.path.dirname(os.path.abspath(self.args.worker))
        self.result["sizes"] = extras.sizes(build, self.args.worker)
        self.result["compile_seconds"] = extras.compile_seconds(os.path.dirname(HERE), build)

    def dismiss(self):
        for worker in self.live.values():
            worker.quit()
        self.live.clear()

    def close(self):
        self.dismiss()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def main():
    def interrupt(*_):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # timeout(1) sends two: the second would end the saving
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)  # what was measured is kept
    bench = Bench(arguments())
    try:
        bench.everything()
    except ImportError as e:
        complain(f"PyTorch cannot be used ({e}): pip install -r bench/requirements.txt")
        return BAD_INPUT
    except AnotherGpu as e:
        complain(e)
        return BAD_INPUT
    except KeyboardInterrupt:
        complain("interrupted; what was measured is kept")
        bench.problems.append("interrupted")
    finally:
        bench.close()
        if len(bench.result) > 2 or bench.result["workloads"]:
            bench.save()
    for problem in bench.problems:
        complain("incomplete:", problem)
    return INCOMPLETE if bench.problems else OK


if __name__ == "__main__":
    sys.exit(main())
