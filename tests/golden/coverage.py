#!/usr/bin/env python3
"""Writes docs/pytorch.md: every public name of PyTorch with ours, and plainly those that have none.

    tests/golden/coverage.py           # rewrites docs/pytorch.md
    tests/golden/coverage.py --check   # fails when it is out of date

A name of PyTorch is covered when a public header declares the same name, or when spelled.py says how it is written here
and everything it mentions exists; what does not is printed. tests/golden_ops_test.cpp checks without Python that every operator
and module appears in the page.
"""

import re
import sys

import torch
import torchvision
import torch.distributed
from torch import nn, optim
from torchvision.transforms import v2

from common import here
from spelled import differences, noise, ours_alone, reasons, spelled

root = here.parent.parent


def declared(pattern, *files):
    names = set()
    for glob in files:
        for path in root.glob(glob):
            names |= set(re.findall(pattern, path.read_text(), re.M))
    return names


types = r"(?:inline )?(?:Tensor|SumAndNorm|ValuesIndices|UniqueResult|MinMax|SlogdetResult|EighResult|EigResult|SvdResult|QrResult|FrexpResult|HistogramResult|HistogramddResult|LuResult|LuFactorResult|PolarResult|LowRankResult|StdMean|VarMean|void|bool|double|std::\w+<[\w:, <>]+>|NamedTensors)"
ops = declared(rf"^{types} (\w+)\(", "core/ops.h", "core/ops_complex.h", "core/ops_fft.h", "core/ops_matrix.h", "core/ops_numeric.h",
               "core/ops_special.h", "core/special.h", "core/fused_ops.h", "core/linear_cross_entropy.h")
functions = ops | declared(rf"^{types} (\w+)\(", "nn/stft.h", "core/tensor.h", "core/random.h", "autograd/*.h")
methods = declared(r"^  (?:template <class \w+(?: = \w+)?> )?(?:virtual )?[\w:<>&*]+ &?(\w+)\(", "core/tensor.h", "io/process_group.h", "io/tcp_store.h")
classes = r"^(?:template <[\w ,.]+> )?(?:struct|class|using) (?:\[\[nodiscard\]\] )?(\w+)"
modules = declared(classes, "nn/*.h")
optimizers = declared(classes, "optim/*.h")
inits = declared(r"^(?:inline )?(?:void|Tensor|double) (\w+)\(", "nn/init.h")
others = declared(r"^(?! |//|#)(?:.*[ &*])?(\w+)\(", "nn/*.h", "optim/*.h", "data/*.h", "autograd/*.h", "amp/*.h", "io/*.h", "jit/*.h", "core/*.h") | \
    declared(r"^(?! |//|#)(?:.*?[ &*])(\w+)\(", "core/*.h") | declared(classes, "data/*.h", "autograd/*.h", "amp/*.h", "core/*.h", "io/process_group.h", "io/tcp_store.h") | declared(r"^  Pipeline (\w+)\(", "data/pipeline.h")
everything = functions | methods | modules | optimizers | inits | others


def public(module, keep):
    names = [n for n in getattr(module, "__all__", dir(module)) if not n.startswith("_")]
    return sorted((n for n in names if hasattr(module, n) and keep(getattr(module, n)) and not re.fullmatch(noise, n)), key=str.lower)


def is_type(x):
    return isinstance(x, type)


def is_function(x):
    return callable(x) and not is_type(x)


def derived(base):
    return lambda x: is_type(x) and issubclass(x, base) and x is not base


torch_functions = [n for n in dir(torch) if not n.startswith("_") and is_function(getattr(torch, n)) and not re.fullmatch(noise, n)]
schedule_names = [n for n in dir(optim.lr_scheduler) if n[0].isupper() and (n.endswith(("LR", "Restarts", "Plateau")) or n == "ChainedScheduler")]
init_names = [n for n in dir(nn.init) if n.endswith("_") and not n.startswith("_")]
utils_names = [n for n in nn.utils.__all__ if re.match("clip_grad_|parameters_to|vector_to|.*norm$|fuse", n) and n != "clip_grad_norm"]
data_names = [n for n in torch.utils.data.__all__ if is_type(getattr(torch.utils.data, n)) and n[0].isupper() and not re.search("Pipe|Chunk", n)]
data_names += ["random_split", "default_collate"]
# without what serves backends, debugging and their internals, and old names of the same
distributed_names = ["DistributedDataParallel", "DistributedSampler", "SyncBatchNorm", "FullyShardedDataParallel", "ZeroRedundancyOptimizer",
                     "Join", "torchrun"] + [n for n in ["init_process_group", "destroy_process_group", "is_initialized", "is_torchelastic_launched",
                     "get_rank", "get_world_size", "get_backend", "get_node_local_rank", "new_group", "ProcessGroup", "ReduceOp", "Work", "TCPStore", "FileStore",
                     "HashStore", "PrefixStore", "barrier", "monitored_barrier", "broadcast", "all_reduce", "all_reduce_coalesced", "reduce",
                     "all_gather", "all_gather_into_tensor", "gather", "scatter", "reduce_scatter", "reduce_scatter_tensor", "all_to_all",
                     "all_to_all_single", "send", "recv", "isend", "irecv", "batch_isend_irecv", "all_gather_object", "broadcast_object_list",
                     "gather_object", "scatter_object_list", "DeviceMesh", "init_device_mesh", "rpc"] if hasattr(torch.distributed, n)]
distributions = declared(r"^(?:template <[\w ,.]+> ?)?(?:struct|class) (\w+)", "nn/distributions_*.h") | {"kl_divergence"}
distribution_names = sorted((n for n in torch.distributions.__all__ if is_type(getattr(torch.distributions, n)) and n not in ("Distribution", "ExponentialFamily")
                             and not n.endswith("Transform") and not n.startswith("Transform")), key=str.lower) + ["TransformedDistribution"]
# torchaudio is not installed where this runs: the names of its 2.8 that do not depend on other programs
audio = ["load", "save", "Spectrogram", "InverseSpectrogram", "MelScale", "InverseMelScale", "MelSpectrogram", "MFCC", "LFCC", "AmplitudeToDB", "MuLawEncoding",
         "MuLawDecoding", "Resample", "FrequencyMasking", "TimeMasking", "SpecAugment", "TimeStretch", "PitchShift", "Speed", "Fade", "Vol", "GriffinLim",
         "ComputeDeltas", "SlidingWindowCmn", "SpectralCentroid", "Loudness", "RNNTLoss"]
device_names = ["is_available", "device_count", "get_device_name", "get_device_capability", "get_device_properties", "mem_get_info", "is_bf16_supported",
                "synchronize", "set_device", "current_device", "device", "can_device_access_peer", "Stream", "ExternalStream", "stream", "set_stream",
                "current_stream", "default_stream", "record_stream", "Event", "memory_stats", "memory_allocated", "max_memory_allocated", "memory_reserved",
                "max_memory_reserved", "reset_peak_memory_stats", "memory_summary", "memory_snapshot", "empty_cache", "set_per_process_memory_fraction",
                "OutOfMemoryError", "MemPool", "CUDAPluggableAllocator", "pin_memory", "CUDAGraph", "graph", "make_graphed_callables",
                "is_current_stream_capturing", "manual_seed", "get_rng_state", "set_rng_state", "nvtx", "set_sync_debug_mode", "utilization", "temperature",
                "power_draw", "allow_tf32", "set_float32_matmul_precision", "use_deterministic_algorithms", "cudnn.benchmark"]
vision = [n for n in dir(v2) if isinstance(getattr(v2, n), type) and issubclass(getattr(v2, n), nn.Module)]
datasets = sorted(torchvision.datasets.__all__, key=str.lower)
tensor_class = (root / "core/tensor.h").read_text().split("class Tensor {")[1].split("// --- factories")[0]
methods_here = set(re.findall(r"\b(\w+)\(", tensor_class))
everything |= methods_here
tensor_methods = [n for n in dir(torch.Tensor) if not n.startswith("_")]

sections = [
    ("torch", "Functions of `torch`", torch_functions, functions),
    ("F", "`torch.nn.functional`", public(nn.functional, is_function), functions),
    ("linalg", "`torch.linalg`", [n for n in dir(torch.linalg) if n[0] != "_" and is_function(getattr(torch.linalg, n))], set()),
    ("fft", "`torch.fft`", [n for n in torch.fft.__all__ if n != "Tensor"], declared(rf"^{types} (\w+)\(", "core/ops_fft.h")),
    ("special", "`torch.special`", [n for n in dir(torch.special) if n[0] != "_" and n.islower() and n not in ("torch", "common_args", "multi_dim_common")],
     functions),
    ("complex", "Complex numbers", ["complex", "view_as_real", "view_as_complex", "real", "imag", "conj", "abs", "angle", "polar", "mul"], set()),
    ("nn", "Modules and losses of `torch.nn`", public(nn, derived(nn.Module)) + ["Parameter", "Buffer"], modules),
    ("init", "`torch.nn.init`", init_names + ["calculate_gain"], inits),
    ("utils", "`torch.nn.utils`", utils_names, others),
    ("rnn", "`torch.nn.utils.rnn`", ["PackedSequence", "pack_padded_sequence", "pad_packed_sequence", "pack_sequence", "pad_sequence",
     "unpad_sequence", "invert_permutation"], others),
    ("optim", "`torch.optim`", public(optim, derived(optim.Optimizer)), optimizers),
    ("schedule", "`torch.optim.lr_scheduler`", schedule_names, optimizers),
    ("swa", "`torch.optim.swa_utils`", ["AveragedModel", "SWALR", "update_bn"], optimizers),
    ("grad", "Differentiation and mixed precision", ["backward", "grad", "no_grad", "enable_grad", "inference_mode", "detect_anomaly", "gradcheck",
     "gradgradcheck", "checkpoint", "functional_call", "Function", "jacobian", "hessian", "vjp", "jvp", "hvp", "vhp", "autocast", "GradScaler"], others),
    ("device", "`torch.cuda` and `torch.backends`", device_names, others),
    ("distributions", "`torch.distributions`", distribution_names + ["kl_divergence"], distributions),
    ("audio", "`torchaudio` and its transforms", audio, modules),
    ("profiler", "`torch.profiler`", ["profile", "record_function", "schedule", "key_averages", "export_chrome_trace", "profile_memory", "record_shapes",
     "with_flops", "with_stack", "tensorboard_trace_handler"], set()),
    ("data", "`torch.utils.data`", data_names, others),
    ("distributed", "`torch.distributed`", distributed_names, set()),
    ("vision", "`torchvision.transforms.v2`", vision, set()),
    ("boxes", "`torchvision.ops`", torchvision.ops.__all__, others | modules),
    ("datasets", "`torchvision.datasets`", datasets, set()),
    ("language", "Of `transformers` and `tokenizers`, what writing with GPT-2 takes",
     ["generate", "num_beams", "past_key_values", "TopKLogitsWarper", "TopPLogitsWarper", "MinPLogitsWarper", "RepetitionPenaltyLogitsProcessor", "ByteLevelBPETokenizer", "BpeTrainer"], set()),
]


def exists(section, name):
    text = spelled.get(section, {}).get(name, "")
    for word in re.findall(r"`([^`]+)`", text):
        found = re.findall(r"[A-Za-z_]\w*(?=\(|$|\{| |\.|\[|<)", word.split("(")[0].split("{")[0].strip())
        last = found[-1] if found else ""
        if last not in everything:
            print(f"{section}: {name}: no header declares {last}", file=sys.stderr)
            return False
    return bool(text)


def lines_of(section, title, names, ours):
    same, other, missing = [], [], []
    for name in dict.fromkeys(names):
        if exists(section, name):
            other.append(f"| `{name}` | {spelled[section][name]} |")
        elif name in ours:
            same.append(name)
        else:
            missing.append(name)
    yield f"## {title}\n"
    yield f"{len(same) + len(other)} of {len(same) + len(other) + len(missing)} names.\n"
    if same:
        yield "Under the same name: " + ", ".join(f"`{n}`" for n in same) + ".\n"
    if other:
        yield "| PyTorch | Mantissa |\n|---|---|"
        yield "\n".join(other) + "\n"
    yield ("**Not covered:** " + ", ".join(missing) + ".\n") if missing else "Nothing is missing.\n"
    if section in reasons:
        yield reasons[section] + "\n"


# In Python most functions are methods, too, and methods work in place: here a few are.
def methods_of_tensors():
    both = [n for n in tensor_methods if n in methods_here and n not in spelled["Tensor"]]
    called = [n for n in tensor_methods if n in functions and n not in both and n not in spelled["Tensor"] and not n.endswith("_")]
    yield "## Methods of `torch.Tensor`\n"
    yield "Methods here, too: " + ", ".join(f"`{n}`" for n in both) + ".\n"
    yield "Functions of the same name, `tril(x)` for `x.tril()`: " + ", ".join(f"`{n}`" for n in called) + ".\n"
    yield "| PyTorch | Mantissa |\n|---|---|"
    for name, text in spelled["Tensor"].items():
        assert hasattr(torch.Tensor, name), name
        assert exists("Tensor", name), name
        yield f"| `{name}` | {text} |"
    yield "\n" + reasons["Tensor"] + "\n"


def page():
    version = torch.__version__.split("+")[0]
    yield f"""# PyTorch's names and ours

Written by `tests/golden/coverage.py` from PyTorch {version} and the public headers; do not edit. Functions are in namespace
`mantissa` (`core/ops.h`, `core/ops_complex.h`, `core/ops_fft.h` (in `fft`), `core/ops_matrix.h`, `core/ops_numeric.h`, `core/ops_special.h`, `core/special.h`, `core/linear_cross_entropy.h`, `core/indexing.h`, `core/tensor.h`, `core/random.h`, `nn/stft.h`), the rest in `mantissa::nn`, `nn::init`, `distributions`, `optim`, `amp` and `data`.
Options have PyTorch's names and defaults and are designated initialisers: `nn::Conv2d(3, 8, 3, {{.padding = 1}})`.
In-place forms (`add_`) exist only as the methods of `Tensor` in `core/tensor.h`; quantized, sparse, complex, named and
nested tensors do not exist, and names that serve them or PyTorch's internals are left out below.

Results and gradients of every operator and module are compared with PyTorch's in f64 (1e-9) and f32 (2e-4):
`tests/golden_ops_test.cpp`, `golden_modules_test.cpp`, `golden_training_test.cpp` and `golden_optim_test.cpp`; a test
fails for an operator or module without such a comparison or a stated reason.

## What reads differently in C++

- A tensor in a condition is its single element, as in Python: `if (loss < best)`, `if (any(isnan(x)))`. `x.defined()` is Python's
  `x is not None`.
- Every operator is a function, `mean(x, {{2, 3}})`, `gather(x, 1, index)`; the most common are also methods of `Tensor`, `x.mean({{2, 3}})`,
  `x.softmax(-1)`. A single dimension or size needs no braces: `sum(x, 1)`, `zeros(5)`; methods also take several without: `x.view(3, -1)`. `view` is `reshape`.
- `x[:, 1:, -1]` is `x[{{all, slice(1), -1}}]`, and `x[0::2]` is `x[{{slice(0, {{}}, 2)}}]`; `x[mask]`, `x[{{rows, columns}}]` and `x[{{all, rows}}]`
  (`x[:, rows]`) take tensors and give a copy, with PyTorch's rules (`core/indexing.h`).
- `x[0] = y` does not compile: `x[0].copy_(y)` and `x[0].fill_(2)` write into x. `x[:, rows] = y` is `index_put_(x, {{all, rows}}, y)`, and
  `x[x < 0] = 0` is `index_put_(x, {{x < 0}}, 0)`. In-place writes are not recorded by autograd; `x = index_put(x, {{all, rows}}, y)` is, and so are `cat` and `stack`
  of results collected in a loop. Writing a value that requires a gradient is therefore an error: use `x[0].copy_(y.detach())`, `total.add_(loss.detach())`.
- `b, t, c = x.shape` is `auto [b, t, c] = x.sizes<3>()`, and `q, k, v = qkv.chunk(3, -1)` is `auto [q, k, v] = qkv.chunk<3>(-1)`; so are
  `unbind` and `split`, and `meshgrid<2>({{a, b}})` (`core/unpack.h`).
- Options are given in the order of their declaration: `{{.label_smoothing = 0.1, .ignore_index = 0}}`. The compiler rejects any other order.
- A module is called, `net(x)`. What are methods in PyTorch are functions here, applied to a net, a part of it or a vector of modules:
  `nn::parameters(net.layers)`, `nn::eval(net.norm)`, `nn::state_dict(net)`, `nn::zero_grad(net)`.
- `torch.onnx.export(net, (x,), path, dynamic_axes=...)` is `nn::save_onnx(net, path, {{x}}, {{.dynamic = {{{{"batch"}}}}}})`; `nn::OnnxModel net(path)` loads
  the files of both, as a trainable module.
- A state dict is a list of names and tensors: `io::tensor_named(nn::state_dict(net), "fc.weight")`, `io::load_safetensors(path)["fc.weight"]`.
- `net[0].weight` of a `Sequential` is `net[0].as<nn::Linear>().weight`; `net[-1] = nn::Linear(512, 10)` replaces the last layer.
- Freezing: `nn::requires_grad_(net.body, false);`. `nn::load(net, path, {{.strict = false}})` loads the entries that both
  have, and reports missing and unexpected ones. Entries whose shapes do not match must be removed first.
- `for m in net.modules(): if isinstance(m, nn.BatchNorm2d): m.eval()` is `nn::for_each<nn::BatchNorm2d>(net, [](auto& m) {{ nn::eval(m); }})`, and so is
  `net.apply(init)`. Hooks belong to an `nn::Hooked<nn::Conv2d>`, which replaces the layer and keeps its name (`nn/hooked.h`): `before(f)` is
  `register_forward_pre_hook`, `after(f)` is `register_forward_hook`, and `y.on_grad(f)` in the latter is `register_full_backward_hook`.
- `scheduler = CosineAnnealingLR(opt, T_max=100)` is `optim::Scheduler scheduler(opt, optim::CosineAnnealingLR{{.t_max = 100}})` (`optim/schedule.h`).
- `operator()` is const. A buffer that it writes to (`register_buffer`) is a `mutable nn::Buffer`, listed in `MANTISSA_FIELDS` like any other member.
- A parameter group takes the options it is given and otherwise the optimizer's defaults, not those of the first group:
  `opt.add_group(nn::parameters(head), {{.lr = 1e-2, .weight_decay = 0.05}})`. If a schedule is running, the group follows it from the next step on, with the
  learning rate that it then has as its base (PyTorch's schedulers differ among each other in this).
- `torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)` is `grad(u, x, ones_like(u), {{.create_graph = true}})`, a vector of gradients.
  `p.grad = g` is `p.set_grad(g)`, and `torch.is_grad_enabled()` is `grad_enabled()`.
- A `torch.autograd.Function` is a struct with `forward` and `backward` (`ops/function.h`); what `ctx` stores is in its `Saved` or in a member of the struct.
- `torch.from_dlpack(x)` and `to_dlpack` are functions of `core/dlpack.h`; they take and return pointers instead of capsules.
- Distributions take named parameters in braces: `distributions::Categorical({{.logits = z}})`; PyTorch's properties are members or methods.
- `tensor({{1.5, 2.0}})`, `tensor(3.5)` and `tensor(v)` of a `std::vector` have PyTorch's dtypes: i64 for integers, bool, and f32 for float and double alike. `from_data(v, sizes)` has the dtype of v's elements.
- A data set is a `Pipeline`, and so is what a `DataLoader` is: `data::mnist().shuffle().batch(128)`. Images are normalised unless a step says
  otherwise (`ToTensor()` alone is `.normalize({0}, {1})`). `len(dataset)` and `len(loader)` are `.samples()` and `.batches()`.
- `fc.in_features` is `fc.weight.size(1)`, and `sum(p.numel() for p in net.parameters())` is `nn::count(net)`.
- `h, c = cell(x, (h, c))` is `state = cell(x, state)`, with a `nn::LSTMState`; `values, indices = topk(x, 3)` is `auto [values, indices] = topk(x, 3)`.
- `self.decoder.weight = self.encoder.weight` is `nn::tie(decoder.weight, encoder.weight)`; `state_dict` then lists the weight once, and files that have it twice load, too.
- `copy.deepcopy(net)` is `nn::clone(net)`. `nn::state_dict(net)` shares its tensors with the net, as in Python: keep the best weights as `nn::clone(nn::state_dict(net))`.
- `einops.rearrange(x, "b (h w) c -> b c h w", h=7)` is `rearrange(x, "b (h w) c -> b c h w", {{{{"h", 7}}}})`, and so are `reduce` and `repeat`
  (`core/einops.h`).
- Several threads may train different nets, and run inference with a shared one, at the same time, as in PyTorch.
- `generator=g` is a `RandomScope` around the call (`core/random.h`), and so is `torch.random.fork_rng()`.
- `print(x)` is `std::cout << x`, or, with `core/format.h`, `fmt::print("{{}}", x)`.
- `full(sizes, 2)` is f32, as `zeros` and `ones` are, unless `{{.dtype = i64}}` is given.
- `x += y` does not compile: `x = x + y` is recorded by autograd, `x.add_(y)` writes into x and is not.
- After `using namespace mantissa`, a struct of yours with the name of one of the library (`Index`, `Context`, `View`, `Ref`, ...) is ambiguous,
  unless it is in a namespace of its own: `namespace my {{ using namespace mantissa; struct View {{ ... }}; ... }}`.
- `F.interpolate(x, scale_factor=2)` is `interpolate(x, {{.scale_factor = {{2}}}})`: one factor for all dimensions, or one for each.
- Do not install signal handlers (`io/stop.h` says why): call `io::catch_stop_signals();` in the first line of `main`, and loop
  `while (!io::stop_asked())`, so that Ctrl-C and SIGTERM leave the loop and a checkpoint can be saved (`io/checkpoint.h`).
- `torch.finfo(x.dtype).min` is `finfo(x.dtype()).min`, and likewise `iinfo` (`core/finfo.h`).
- `not x` is `!x` for a tensor of one element; masks are negated and combined by `~ & |`, as in Python.
- `arange(0, 1, 0.1)` is i64 unless `{{.dtype = f32}}` is given, and throws for fractional values.
"""
    for section in sections:
        yield from lines_of(*section)
        if section[0] == "torch":
            yield from methods_of_tensors()
    used = {n for _, _, names, _ in sections for n in names}
    listed = " ".join(text for name, table in spelled.items() if name != "Tensor" for text in table.values())
    alone = sorted(n for n in ops if n not in used and not re.search(rf"\b{n}\b", listed))
    unexplained = [n for n in alone if n not in ours_alone]
    assert not unexplained, f"these operators have no counterpart in PyTorch: say what they are in ours_alone: {unexplained}"
    yield "## Operators that PyTorch has not, or not under a public name\n"
    yield "\n".join(f"- `{n}`: {ours_alone[n]}" for n in alone) + "\n"
    yield "## Where the numbers differ, on purpose\n"
    yield "\n".join(f"- {d}" for d in differences)


if __name__ == "__main__":
    path, text = root / "docs/pytorch.md", "\n".join(page()) + "\n"
    if "--check" in sys.argv:
        sys.exit(0 if path.exists() and path.read_text() == text else "docs/pytorch.md is out of date: run tests/golden/coverage.py")
    path.write_text(text)
