"""One workload in training by PyTorch: what torch_worker.py serves, and with which the driver checks Mantissa's
numbers."""

import contextlib
import resource
import time
import zlib

import numpy as np
import torch

import models
import torch_tensors

MODES = (
    *("eager", "eager-nhwc", "amp", "amp-nhwc", "compile", "compile-amp"),
    *("cudagraph", "cudagraph-amp", "compile-cudagraph", "compile-cudagraph-amp"),  # the whole step as one graph
)


# f32 is f32 on both sides, whatever the environment says (TORCH_ALLOW_TF32_CUBLAS_OVERRIDE) or cuDNN's default is.
torch.set_float32_matmul_precision("highest")
torch.backends.cudnn.allow_tf32 = False


def rows_of(spec):
    dtype = {"f32": np.float32, "i64": np.int64}[spec["dtype"]]
    return torch.from_numpy(np.memmap(spec["path"], dtype=dtype, mode="r+", shape=tuple(spec["sizes"])))


class Session:
    def __init__(self, spec, mode, dtype=torch.float32):
        self.spec, self.mode, self.device, self.batch = spec, mode, torch.device(spec["device"]), spec["batch"]
        self.cuda = self.device.type == "cuda"
        self.x, self.y, self.order = rows_of(spec["x"]), rows_of(spec["y"]), rows_of(spec["order"])
        self.eval_x, self.eval_y = rows_of(spec["eval_x"]), rows_of(spec["eval_y"])
        self.dtype = dtype
        self.nhwc = mode.endswith("nhwc") and self.x.dim() == 4
        self.amp = mode.startswith("amp") or mode.endswith("amp")
        with self.device:  # what is drawn is overwritten: on a GPU in no time
            net = models.MODELS[spec["model"]]()
        net.load_state_dict(torch_tensors.load(spec["init"]))
        net = net.to(self.device, dtype)
        self.net = net.to(memory_format=torch.channels_last) if self.nhwc else net
        self.optimizer, self.clip = models.make_optimizer(
            spec["model"], self.net.parameters(), "cudagraph" in mode
        )
        self.step = 0
        self.forward_loss = lambda x, y: models.loss_of(self.net(x), y)
        if mode.startswith("compile") and self.cuda:  # with the loss, which the compiler can fuse with the last layer
            self.forward_loss = torch.compile(self.forward_loss)
        elif mode.startswith("compile"):  # as what docs/performance.md shows of the CPU was measured
            compiled = torch.compile(self.net)
            self.forward_loss = lambda x, y: models.loss_of(compiled(x), y)
        self.graph = None

    def description(self):
        crc = 0
        for _, t in sorted(self.net.state_dict().items()):
            crc = zlib.crc32(t.cpu().contiguous().numpy().tobytes(), crc)
        return {
            "parameters": [n for n, _ in self.net.named_parameters()],
            "elements": sum(p.numel() for p in self.net.parameters()),
            "weights": crc,
            "order": zlib.crc32(self.order.numpy().tobytes()),
        }

    def autocast(self):
        return torch.autocast(self.device.type, torch.bfloat16) if self.amp else contextlib.nullcontext()

    def batch_of(self, rows, index):
        """Gathered into pinned memory where there is a GPU: no second copy, and nothing waits for the transfer."""
        if not self.cuda:
            return torch.index_select(rows, 0, index)
        place = torch.empty((len(index), *rows.shape[1:]), dtype=rows.dtype, pin_memory=True)
        return torch.index_select(rows, 0, index, out=place)

    def move(self, x, y):
        if self.cuda:
            x, y = x.to(self.device, non_blocking=True), y.to(self.device, non_blocking=True)
        if x.is_floating_point() and self.dtype != torch.float32:
            x = x.to(self.dtype)
        return (x.contiguous(memory_format=torch.channels_last) if self.nhwc else x), y

    def loss(self, x, y):
        with self.autocast():
            return self.forward_loss(x, y)

    def update(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(x, y)
        loss.backward()
        if self.clip:
            torch.nn.utils.clip_grad_norm_(self.net.parameters(), self.clip)
        self.optimizer.step()
        return loss.detach()

    def captured(self, x, y):
        """The step as one CUDA graph, after three on a side stream, as PyTorch's notes on CUDA graphs have it."""
        if self.graph is None:
            self.held = (x.clone(), y.clone())
            start = {k: v.clone() for k, v in self.net.state_dict().items()}
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    self.update(*self.held)
            torch.cuda.current_stream().wait_stream(side)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.result = self.update(*self.held)
            self.net.load_state_dict(start)
            for state in self.optimizer.state.values():
                for value in state.values():
                    value.zero_()
        self.held[0].copy_(x)
        self.held[1].copy_(y)
        self.graph.replay()
        return self.result  # which the next replay overwrites

    def run(self, count):
        losses, labels, first = [], [], self.step
        update = self.captured if "cudagraph" in self.mode else self.update
        history = torch.zeros(count, device=self.device) if self.cuda else None
        before = resource.getrusage(resource.RUSAGE_SELF)
        begin = time.perf_counter()
        for i in range(count):
            index = self.order[self.step]
            x, y = self.batch_of(self.x, index), self.batch_of(self.y, index)
            labels.append(y)
            loss = update(*self.move(x, y))
            if self.cuda:  # read once, after the turn
                history[i].copy_(loss)
            else:
                losses.append(loss)
            self.step += 1
        losses = history.tolist() if self.cuda else [loss.item() for loss in losses]
        seconds = time.perf_counter() - begin
        after = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "seconds": seconds,
            "losses": losses,
            "indices": self.order[first : self.step].sum(1).tolist(),
            "labels": [int(y.sum()) for y in labels],
            "step": self.step,
            "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
            "involuntary": after.ru_nivcsw - before.ru_nivcsw,
        }

    @torch.no_grad()
    def evaluate(self):
        self.net.eval()
        loss = right = seen = 0
        for first in range(0, len(self.eval_x), self.batch):
            x, y = self.move(self.eval_x[first : first + self.batch], self.eval_y[first : first + self.batch])
            with self.autocast():
                logits = self.net(x)
            loss += models.loss_of(logits.to(self.dtype), y).item() * y.numel()
            right += (logits.argmax(-1) == y).sum().item()
            seen += y.numel()
        self.net.train()
        return {"loss": loss / seen, "accuracy": right / seen}

    def gradients(self, step, path=None):
        self.optimizer.zero_grad(set_to_none=True)
        index, parts, total = self.order[step], self.spec.get("micro", 1), 0.0
        for part in index.chunk(parts):  # of one size: the mean of their means is the mean
            loss = self.loss(*self.move(self.batch_of(self.x, part), self.batch_of(self.y, part))) / parts
            loss.backward()
            total += loss.item()
        named = {n: p.grad.detach().to("cpu", copy=True) for n, p in self.net.named_parameters()}
        self.optimizer.zero_grad(set_to_none=True)
        if path:
            torch_tensors.save(path, {n: g.float() for n, g in named.items()})
        return {"loss": total, "gradients": named}

    def snapshot(self, path):
        named = dict(self.net.state_dict())
        for name, p in self.net.named_parameters():
            for key, value in self.optimizer.state[p].items():
                if torch.is_tensor(value):
                    named[f"optim.{name}.{key}"] = value
        torch_tensors.save(path, named)
        return {"step": self.step}

    def restore(self, path, step):
        """Goes on from a snapshot of either side. Without an optimizer's state in it, from the weights alone."""
        named = torch_tensors.load(path)
        own = self.net.state_dict()
        self.net.load_state_dict({n: t for n, t in named.items() if n in own})
        self.step = step
        steps = [int(t) for n, t in named.items() if n.startswith("optim.") and n.endswith(".step")]
        for name, p in self.net.named_parameters():
            state = self.optimizer.state[p]
            state.clear()
            prefix = f"optim.{name}."
            for key, t in ((n[len(prefix) :], t) for n, t in named.items() if n.startswith(prefix)):
                if key == "step":
                    if not isinstance(self.optimizer, torch.optim.SGD):
                        state["step"] = t.reshape(()).float().to(self.device)
                else:
                    t = t.to(self.device, self.dtype).reshape(p.shape)
                    state[key] = t.clone(memory_format=torch.preserve_format)
        return steps
