"""What is measured: name -> model (bench/models.py, workloads.cpp), batch, data, evaluated rows (else 1000), title.

only: the device that it is meant for; without it, both. micro: parts in which the reference takes a batch for gradients
in f64, where all of it would not fit. items: what one row of a batch counts as, for rates (1 unless said). large: all
sides lie in the GPU's memory at once, of which 80 GB must do; PyTorch's eager step as a graph is left out, as kernels
of that length hide their launches without one.
"""

WORKLOADS = {
    "mlp32": dict(model="mlp", batch=32, data="mnist", title="MLP, Adam, batch 32"),
    "mlp128": dict(model="mlp", batch=128, data="mnist", title="MLP, Adam, batch 128"),
    "mlp1024": dict(model="mlp", batch=1024, data="mnist", title="MLP, Adam, batch 1024"),
    "cnn": dict(model="cnn", batch=128, data="mnist", title="MNIST CNN, Adam, batch 128"),
    "lenet": dict(model="lenet", batch=4, data="cifar", title="tutorial LeNet, SGD, batch 4"),
    "simple": dict(model="simple", batch=128, data="cifar", title="SimpleCNN, Adam, batch 128"),
    "resnet18": dict(model="resnet18", batch=32, data="cifar", eval=500, title="ResNet-18, SGD, batch 32"),
    "gpt": dict(model="gpt", batch=8, data="text", title="sample GPT, AdamW, 8 x 128 characters"),
    "resnet512": dict(
        model="resnet18", batch=512, data="cifar", eval=500, only="cuda", title="ResNet-18, SGD, batch 512"
    ),
    "gpt2": dict(
        model="gpt2", batch=8, data="pairs", eval=16, only="cuda", micro=8, items=1024, large=True,
        title="GPT-2 124M, AdamW, 8 x 1024 tokens",
    ),  # fmt: skip
    "vit": dict(model="vit", batch=8, data="cifar", eval=500, title="ViT-S, AdamW, batch 8"),
}

# On a GPU in this order: what docs/gpu/README.md's table asks for comes first.
GPU_ORDER = ("mlp128", "cnn", "gpt2", "resnet512")


def of_device(device):
    names = [n for n, w in WORKLOADS.items() if w.get("only", device) == device]
    if device == "cuda":
        names.sort(key=lambda n: GPU_ORDER.index(n) if n in GPU_ORDER else len(GPU_ORDER))
    return names
