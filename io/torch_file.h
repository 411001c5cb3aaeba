// Reads files of torch.save (.pt, .pth): a state dict, or a checkpoint with several of them. A zip archive of a pickle
// and the tensors' raw storages. Data only, see io/pickle.h: no code in such a file is ever run.
#pragma once

#include <string>

#include "io/safetensors.h"

namespace mantissa::io {

struct TorchFile {
  // Tensors under their nested keys joined by dots: "conv1.weight"; "model.conv1.weight" and
  // "optimizer.state.0.exp_avg" for {"model": ..., "optimizer": ...}. On the CPU, with their original strides and
  // shared storages. A tensor saved alone is named "tensor".
  NamedTensors tensors;
  Metadata values;  // numbers, strings, devices and None in the same structure, as text: {"epoch", "3"}
};

// Dtypes as in load_safetensors. Files of PyTorch 1.6 (2020) and later; older ones, TorchScript's, whole pickled
// modules and sparse, quantized or complex tensors are a FormatError that says what to do in Python.
TorchFile load_torch(const std::string& path);

// Whether a file starts like a zip archive: torch.save's, not safetensors.
bool is_torch_file(const std::string& path);

}  // namespace mantissa::io
