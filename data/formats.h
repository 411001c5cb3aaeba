// What data/load.cpp needs to know about a family of datasets to find it. Internal.
#pragma once

#include <string>

#include "data/load.h"

namespace mantissa::data {

// IDX files (data/mnist.cpp): all datasets use the same file names.
bool has_idx_files(const std::string& dir);
bool holds_another_idx_set(const std::string& dir, const std::string& name);

// CIFAR's binary layout (data/cifar.cpp).
bool has_cifar_files(const std::string& dir, const std::string& name);

}  // namespace mantissa::data
