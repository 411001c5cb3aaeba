// MNIST and its drop-in replacements, in the IDX file format. data/load.h says where they are looked for.
// Files are hostile: magic number, counts, sizes and labels are checked before anything is returned.
// Format: http://yann.lecun.com/exdb/mnist.
#pragma once

#include <string>

#include "data/load.h"
#include "data/pipeline.h"

namespace mantissa::data {

// One folder, without looking elsewhere. The files are {train,t10k}-{images-idx3,labels-idx1}-ubyte, plain
// or .gz, with '-' or '.' before idx. FormatError when one is damaged.
Dataset load_idx_folder(const std::string& dir, const std::string& name, Split split,
                        std::int64_t classes = 10);

// An IDX file of bytes, plain or gzip: u8 of `rank` dimensions (1 for labels, 3 for images).
Tensor read_idx(const std::string& path, int rank);

// Ready for a training loop, see data/pipeline.h.
inline Pipeline mnist(const std::string& dir = "", Split split = Split::train) {
  return Pipeline(load_dataset_or_warn("mnist", split, dir));
}
inline Pipeline fashion_mnist(const std::string& dir = "", Split split = Split::train) {
  return Pipeline(load_dataset_or_warn("fashion-mnist", split, dir));
}

}  // namespace mantissa::data
