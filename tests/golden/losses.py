"""The losses of the first 20 training steps of a convolutional network, a transformer and an LSTM, in f64: same weights,
same batches, same optimizer as tests/golden_training_test.cpp. Five batches take turns."""

import torch
from torch import nn
from torch.nn import functional as F

from common import Inputs, stored, write_file

steps, batches = 20, 5


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 8, 3, stride=2, groups=2)
        self.fc = nn.Linear(8, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn(self.conv1(x))), 2)
        return self.fc(F.adaptive_avg_pool2d(F.silu(self.conv2(x)), 1).flatten(1))

    def loss(self, x, y):
        return F.cross_entropy(self(x), y, label_smoothing=0.1)


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.position = nn.Embedding(11, 16), nn.Embedding(9, 16)
        layer = nn.TransformerEncoderLayer(16, 4, 32, 0.0, "gelu", batch_first=True, norm_first=True)
        self.blocks, self.norm, self.head = nn.TransformerEncoder(layer, 2), nn.LayerNorm(16), nn.Linear(16, 11, bias=False)

    def forward(self, x):
        h = self.token(x) + self.position(torch.arange(x.shape[1]))
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=torch.float64)
        return self.head(self.norm(self.blocks(h, mask=mask, is_causal=True)))

    def loss(self, x, y):
        return F.cross_entropy(self(x).flatten(0, 1), y.flatten())


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.lstm, self.head = nn.Embedding(11, 6), nn.LSTM(6, 10, num_layers=2, batch_first=True), nn.Linear(10, 11)

    def forward(self, x):
        return self.head(self.lstm(self.token(x))[0])

    def loss(self, x, y):
        return F.cross_entropy(self(x).transpose(1, 2), y)


def train(name, model, x, y, make_optimizer):
    tensors = {f"{name}/state/{n}": stored(t.double()) if t.is_floating_point() else t.clone() for n, t in model.state_dict().items()}
    model.double()
    optimizer, losses = make_optimizer(model.parameters()), []
    for step in range(steps):
        loss = model.loss(x[step % batches], y[step % batches])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return tensors | {f"{name}/x": stored(x), f"{name}/y": y.clone(), f"{name}/losses": torch.stack(losses)}


def write(folder):
    torch.manual_seed(5)
    draw, o = Inputs("losses"), torch.optim
    text = draw.ints(0, 11, batches, 4, 10)
    file = train("cnn", Cnn(), draw.randn(batches, 8, 1, 12, 12).detach(), draw.ints(0, 5, batches, 8),
                 lambda p: o.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-3))
    x, y = text[..., :-1].contiguous(), text[..., 1:].contiguous()
    file |= train("transformer", Transformer(), x, y, lambda p: o.AdamW(p, lr=3e-3))
    file |= train("lstm", Lstm(), x, y, lambda p: o.Adam(p, lr=1e-2))
    write_file(folder / "losses.safetensors", file, seeds="5")
