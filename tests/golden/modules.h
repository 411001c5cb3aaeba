// The golden cases of modules, as several tests run them. Each table is a file of its own: modules_layers.cpp,
// modules_loss.cpp and modules_sequence.cpp.
#pragma once

#include <span>
#include <string>

#include "core/device.h"

namespace mantissa::test {

struct ModuleCase;  // tests/golden/module_case.h
std::span<const ModuleCase> layer_cases();
std::span<const ModuleCase> loss_module_cases();
std::span<const ModuleCase> sequence_cases();

// Checks results, gradients and buffers against those of PyTorch in stem.safetensors, in f64 and f32, on a device.
// $MANTISSA_MODULE=LSTM runs the cases of one module.
void run_modules(const char* stem, std::span<const ModuleCase> cases, Device device = cpu);
// For tests/golden/load_back.py, which loads files of nn::save in PyTorch: $MANTISSA_SAVE names a folder.
void save_modules(const char* stem, std::span<const ModuleCase> cases);
std::string module_of(const std::string& name);  // of a case: "LSTM" of "LSTM.state"

}  // namespace mantissa::test
