"""What is measured: name -> model (bench/models.py, workloads.cpp), batch, data, evaluated rows (else 1000), title."""

WORKLOADS = {
    "mlp32": dict(model="mlp", batch=32, data="mnist", title="MLP, Adam, batch 32"),
    "mlp128": dict(model="mlp", batch=128, data="mnist", title="MLP, Adam, batch 128"),
    "mlp1024": dict(model="mlp", batch=1024, data="mnist", title="MLP, Adam, batch 1024"),
    "cnn": dict(model="cnn", batch=128, data="mnist", title="MNIST CNN, Adam, batch 128"),
    "lenet": dict(model="lenet", batch=4, data="cifar", title="tutorial LeNet, SGD, batch 4"),
    "simple": dict(model="simple", batch=128, data="cifar", title="SimpleCNN, Adam, batch 128"),
    "resnet18": dict(model="resnet18", batch=32, data="cifar", eval=500, title="ResNet-18, SGD, batch 32"),
    "gpt": dict(model="gpt", batch=8, data="text", title="sample GPT, AdamW, 8 x 128 characters"),
    "vit": dict(model="vit", batch=8, data="cifar", eval=500, title="ViT-S, AdamW, batch 8"),
}
