"""Requests and answers between the driver and its workers: one JSON object per line, over pipes.

  INIT spec        loads model, weights, data and order   -> parameters (names), elements, weights and order (CRC-32)
  WARM/RUN steps   trains  -> seconds, losses, indices and labels (sums per step), step, cpu, involuntary;
                      of Mantissa also replays (steps so far that were launched as one CUDA graph)
  EVAL             the evaluation set -> loss, accuracy
  GRADIENTS step, path   of the batch of that step, at the weights of now, to a safetensors file -> loss
  SNAPSHOT/DUMP path     weights, buffers and the optimizer's state ("optim.<parameter>.<state>") -> step
  MEMORY           -> rss, peak_rss (bytes of the process), peak_allocated, peak_reserved (the framework's own counts)
  OPERATOR spec    see bench/operators.py
  QUIT             ends the worker

A worker says {"ready": true, ...} when it has started, and {"error": "..."} where it cannot do what was asked. The
spec of INIT has model, precision (f32, bf16), device, captured (the step as one CUDA graph; else false), batch, init (a
safetensors file), and x, y, order, eval_x,
eval_y, each {path, dtype, sizes}: raw files that all processes map, so that the driver can overwrite a batch.
Needs the standard library alone.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time


class WorkerError(Exception):
    """A worker died, hung, or answered with an error or something that is not JSON."""


class Worker:
    """A child process that answers requests. Exactly one of them is to be busy at a time."""

    def __init__(self, name, command, cores=None, environment=None, timeout=60, errors=None):
        self.name, self.buffer = name, b""

        def prepare():  # it stays in the driver's process group: Ctrl-C ends all of them
            if cores:
                os.sched_setaffinity(0, cores)

        self.started = time.monotonic()
        try:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
                stderr=errors,
                preexec_fn=prepare,
            )
        except (OSError, subprocess.SubprocessError) as e:
            raise WorkerError(f"{name}: cannot be started: {e}") from None
        self.timeout = timeout

    def wait_ready(self):
        """Apart from the constructor, so that several can start at the same time."""
        self.hello = self._read(self.timeout)
        if not self.hello.get("ready"):
            raise WorkerError(f"{self.name}: did not say that it is ready: {str(self.hello)[:200]}")
        return self

    def ask(self, what, timeout=60, **arguments):
        try:
            self.process.stdin.write((json.dumps({"do": what, **arguments}) + "\n").encode())
            self.process.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise WorkerError(f"{self.name}: died{self._exit_code()} before {what}") from None
        return self._read(timeout, what)

    def _read(self, timeout, what="start"):
        end = time.monotonic() + timeout
        out = self.process.stdout.fileno()
        while b"\n" not in self.buffer:
            if not select.select([out], [], [], max(0, end - time.monotonic()))[0]:
                self.kill()
                raise WorkerError(f"{self.name}: gave no answer to {what} in {timeout:g} s, stopped")
            chunk = os.read(out, 1 << 20)
            if not chunk:
                self.kill()
                raise WorkerError(f"{self.name}: died{self._exit_code()} during {what}")
            self.buffer += chunk
        line, self.buffer = self.buffer.split(b"\n", 1)
        try:
            answer = json.loads(line)
            if not isinstance(answer, dict):
                raise ValueError
        except ValueError:
            self.kill()
            raise WorkerError(
                f"{self.name}: answered {what} with something that is not JSON: {line[:80]!r}"
            ) from None
        if "error" in answer:
            raise WorkerError(f"{self.name}: {what}: {answer['error']}")
        return answer

    def _exit_code(self):
        try:
            code = self.process.wait(1)
        except subprocess.TimeoutExpired:
            return ""
        return f" ({signal.Signals(-code).name})" if code < 0 else f" (exit code {code})"

    def alive(self):
        return self.process.poll() is None

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self):
        if self.alive():
            self.process.kill()
        self.process.wait()
        self._close()

    def quit(self):
        try:
            self.process.stdin.write(b'{"do": "QUIT"}\n')
            self.process.stdin.close()
            self.process.wait(5)
            self._close()
        except (OSError, ValueError, subprocess.TimeoutExpired):
            self.kill()

    def _close(self):
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()


def serve(hello, answer, source=sys.stdin, sink=sys.stdout):
    """The other end: answers each request by answer(request) until QUIT or the end of the input."""

    def say(reply):
        sink.write(json.dumps(reply) + "\n")
        sink.flush()

    say(hello)
    for line in source:
        try:
            request = json.loads(line)
            if request["do"] == "QUIT":
                break
            reply = answer(request)
        except Exception as e:
            reply = {"error": f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"[:500]}
        say(reply)
