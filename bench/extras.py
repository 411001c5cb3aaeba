"""What is measured outside the turns: peak memory and time to the first step in fresh processes, sizes, time to
compile."""

import os
import re
import shutil
import subprocess
import tempfile
import time

STEPS = 6  # with the same batch each time: the data itself is mapped and would count as memory


def memory(start, init, spec):
    """One live worker. Bytes at the peak of the training steps: of the whole process, and beyond what it was before
    the model; and the seconds from its start to the end of its first step. start(): a protocol.Worker just started.
    """
    worker = start()
    try:
        hello = worker.wait_ready().hello
        worker.ask("INIT", 120, spec=dict(spec, **init))
        worker.ask("MEMORY", reset=True)
        worker.ask("RUN", 900, steps=1)
        first = time.monotonic() - worker.started
        worker.ask("RUN", 900, steps=STEPS - 1)
        found = worker.ask("MEMORY")
    finally:
        worker.quit()
    return {"peak": found["peak_rss"], "beyond": found["peak_rss"] - hello["rss"], "before": hello["rss"],
            "allocated": found["peak_allocated"], "reserved": found.get("peak_reserved", 0),
            "to_first_step": first}  # fmt: skip


def stripped_bytes(path, *flags):
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "copy")
        shutil.copy(path, copy)
        subprocess.run(["strip", *flags, copy], check=True, capture_output=True)
        return os.path.getsize(copy)


def compiler_of(build):
    with open(os.path.join(build, "CMakeCache.txt")) as f:
        return re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", f.read(), re.M)[1]


def sizes(build, worker):
    """Bytes of the library as a shared one and of a program that links it statically, both stripped; and of PyTorch's
    libraries, which come stripped. A build that has the static library alone is linked for the purpose."""
    import torch

    found = {"program": stripped_bytes(worker)}
    with tempfile.TemporaryDirectory() as folder:
        path, archive = os.path.join(build, "libmantissa.so"), os.path.join(build, "libmantissa.a")
        if not os.path.exists(path):
            path = os.path.join(folder, "libmantissa.so")
            whole = ["-Wl,--whole-archive", archive, "-Wl,--no-whole-archive", "-Wl,-Bsymbolic"]
            subprocess.run([compiler_of(build), "-shared", "-o", path, *whole], check=True, capture_output=True)
        found["library"] = stripped_bytes(path, "--strip-unneeded")
    folder = os.path.join(os.path.dirname(torch.__file__), "lib")
    cpu = ("libtorch_cpu", "libtorch.so", "libc10.so", "libtorch_python", "libgomp", "libshm")
    found["torch"] = sum(os.path.getsize(os.path.join(folder, n)) for n in os.listdir(folder) if n.startswith(cpu))
    return found


def compile_seconds(root, build, tries=3):
    """The program of README.md, from source to object file, with the compiler that built Mantissa: the least of some
    tries."""
    with open(os.path.join(root, "README.md")) as f:
        code = re.search(r"```cpp\n(#include <mantissa/mantissa.h>.*?)```", f.read(), re.S)[1]
    times = []
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "model.cpp")
        with open(source, "w") as f:
            f.write(code)
        include = ["-I", os.path.join(build, "include"), "-I", root]
        command = [compiler_of(build), "-std=c++20", "-O2", *include, "-c", source, "-o", source + ".o"]
        for _ in range(tries):
            begin = time.monotonic()
            subprocess.run(command, check=True, capture_output=True)
            times.append(time.monotonic() - begin)
    return min(times)
