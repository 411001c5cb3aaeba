// CIFAR-10 and CIFAR-100 in their binary version: 32x32 colour images of 10 or 100 classes. Read from the unpacked
// folder, or directly from the .tar.gz, without writing to disk. Format and data: Krizhevsky, "Learning multiple layers
// of features from tiny images", 2009; https://www.cs.toronto.edu/~kriz/cifar.html
#pragma once

#include <string>

#include "data/load.h"
#include "data/pipeline.h"

namespace mantissa::data {

enum class Cifar { ten, hundred, hundred_coarse };  // hundred_coarse: the 20 superclasses of CIFAR-100

// `path`: a folder with data_batch_1..5.bin and test_batch.bin (CIFAR-10), or train.bin and test.bin (CIFAR-100), or an
// archive of such a folder (.tar.gz or .tar). FormatError: a size that is not a multiple of the record size, a label
// out of range, batches of different lengths, a damaged archive, or one that contains links or devices.
Dataset load_cifar(const std::string& path, Cifar kind, Split split);

// Ready for a training loop; searched for as described in data/load.h.
inline Pipeline cifar10(const std::string& dir = "", Split split = Split::train) {
  return Pipeline(load_dataset_or_warn("cifar10", split, dir));
}
inline Pipeline cifar10(Split split) { return cifar10("", split); }
inline Pipeline cifar100(const std::string& dir = "", Split split = Split::train) {
  return Pipeline(load_dataset_or_warn("cifar100", split, dir));
}
inline Pipeline cifar100(Split split) { return cifar100("", split); }

}  // namespace mantissa::data
