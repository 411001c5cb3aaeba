// What torch.save writes (.pt, .pth), read only: a state dict, or a checkpoint with several of them. A zip archive of a
// pickle and the raw storages of its tensors. Data only, see io/pickle.h: no code in such a file is ever run.
#pragma once

#include <string>

#include "io/safetensors.h"

namespace mantissa::io {

struct TorchFile {
  // Tensors under the keys that lead to them, joined by dots: "conv1.weight"; "model.conv1.weight" and
  // "optimizer.state.0.exp_avg" of {"model": ..., "optimizer": ...}. On the CPU, with the strides that they had; those
  // that shared a storage share it. A tensor that was saved alone is called "tensor".
  NamedTensors tensors;
  Metadata values;  // numbers, texts, devices and None between them, as text: {"epoch", "3"}
};

// Dtypes as load_safetensors has them. Files since PyTorch 1.6 (2020); older ones, TorchScript's, whole pickled modules
// and sparse, quantized or complex tensors are a FormatError that says what to do in Python.
TorchFile load_torch(const std::string& path);

// Whether a file begins as a zip archive: torch.save's, not safetensors.
bool is_torch_file(const std::string& path);

}  // namespace mantissa::io
