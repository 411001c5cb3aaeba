"""The networks of the benchmark in PyTorch, with the names of parameters that bench/workloads.cpp has, and their
optimizers."""

import torch
import torch.nn.functional as F
from torch import nn


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(784, 256), nn.Linear(256, 128), nn.Linear(128, 10)

    def forward(self, x):
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class MnistCnn(nn.Module):
    """pytorch/examples/mnist without its dropout."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3), nn.Conv2d(32, 64, 3)
        self.fc1, self.fc2 = nn.Linear(9216, 128), nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        return self.fc2(F.relu(self.fc1(torch.flatten(x, 1))))


class PooledCnn(nn.Module):
    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = torch.flatten(F.max_pool2d(F.relu(self.conv2(x)), 2), 1)
        return self.head(x)


class LeNet(PooledCnn):
    """The network of the tutorial "Training a classifier"."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 6, 5), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def head(self, x):
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class SimpleCnn(PooledCnn):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 64, 3, padding=1), nn.Conv2d(64, 128, 3, padding=1)
        self.fc1, self.fc2 = nn.Linear(8192, 256), nn.Linear(256, 10)

    def head(self, x):
        return self.fc2(F.relu(self.fc1(x)))


class BasicBlock(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)
        self.conv2, self.bn2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
        self.shortcut = nn.Sequential()
        if stride != 1 or i != o:
            self.shortcut = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + self.shortcut(x))


class ResNet18(nn.Module):
    """For 32x32 pictures, as in kuangliu/pytorch-cifar."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64)
        i = 64
        for n in range(4):
            o = 64 << n
            setattr(self, f"layer{n + 1}", nn.Sequential(BasicBlock(i, o, 1 if n == 0 else 2), BasicBlock(o, o, 1)))
            i = o
        self.linear = nn.Linear(512, 10)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.linear(torch.flatten(F.avg_pool2d(x, 4), 1))


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width, bias=False), nn.LayerNorm(width, bias=False)
        for name in "query", "key", "value", "out":
            setattr(self, name, nn.Linear(width, width, bias=False))
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x, cos, sin):
        n, t, c = x.shape

        def by_head(y):
            return y.view(n, t, self.heads, c // self.heads).transpose(1, 2)

        def rotate(y):
            a, b = y.chunk(2, -1)
            return y * cos + torch.cat((-b, a), -1) * sin

        h = self.norm1(x)
        q, k, v = rotate(by_head(self.query(h))), rotate(by_head(self.key(h))), by_head(self.value(h))
        y = F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(n, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    """samples/gpt.cpp with its defaults."""

    def __init__(self, vocabulary=65, context=128, layers=4, heads=4, width=128):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(GptBlock(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width, bias=False), nn.Linear(width, vocabulary, bias=False)
        half = width // heads // 2
        angle = torch.outer(
            torch.arange(context, dtype=torch.float64), 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
        )
        angle = torch.cat((angle, angle), -1)
        self.register_buffer("cos", angle.cos().float(), persistent=False)
        self.register_buffer("sin", angle.sin().float(), persistent=False)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                narrow = name.endswith("out.weight") or name.endswith("down.weight")
                nn.init.normal_(p, 0, 0.05 / (2 * layers) ** 0.5 if narrow else 0.05)

    def forward(self, tokens):
        x = self.token(tokens)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return self.head(self.norm(x))


class Gpt2Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = (
            y.view(n, t, self.heads, c // self.heads).transpose(1, 2) for y in self.qkv(self.norm1(x)).split(c, 2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(n, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    """GPT-2 of 124M parameters: the head shares the embedding's weight; no dropout."""

    def __init__(self, vocabulary=50304, context=1024, layers=12, heads=12, width=768):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Gpt2Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                narrow = name.endswith("out.weight") or name.endswith("down.weight")
                nn.init.normal_(p, 0, 0.02 / (2 * layers) ** 0.5 if narrow else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, tokens):
        x = self.token(tokens) + self.position.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.token.weight)


class VisionTransformer(nn.Module):
    """samples/vit.cpp with the sizes of ViT-S."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Conv2d(3, 384, 4, 4)
        self.position = nn.Parameter(torch.randn(1, 64, 384) * 0.02)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(384, 6, 1536, dropout=0, activation="gelu", batch_first=True, norm_first=True)
            for _ in range(12)
        )
        self.norm, self.head = nn.LayerNorm(384), nn.Linear(384, 10)

    def forward(self, x):
        x = torch.flatten(self.embed(x), 2).transpose(1, 2) + self.position
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))


MODELS = {
    "mlp": Mlp,
    "cnn": MnistCnn,
    "lenet": LeNet,
    "simple": SimpleCnn,
    "resnet18": ResNet18,
    "gpt": Gpt,
    "gpt2": Gpt2,
    "vit": VisionTransformer,
}


def make_optimizer(model, parameters, captured=False):
    """Fused, which is PyTorch's fastest. The second value is the largest norm of all gradients, 0 for no clipping."""
    if model == "lenet":
        return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9, fused=True), 0
    if model == "resnet18":
        return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9, weight_decay=5e-4, fused=True), 0
    options = {"fused": True, "capturable": captured}
    if model == "gpt":
        return torch.optim.AdamW(parameters, lr=1e-3, betas=(0.9, 0.99), **options), 1
    if model == "gpt2":
        return torch.optim.AdamW(parameters, lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, **options), 1
    if model == "vit":
        return torch.optim.AdamW(parameters, lr=1e-4, **options), 0
    return torch.optim.Adam(parameters, lr=1e-3 if model == "mlp" else 3e-4, **options), 0


def loss_of(logits, labels):
    return F.cross_entropy(logits.flatten(0, -2), labels.flatten())
