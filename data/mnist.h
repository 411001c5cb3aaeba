// MNIST and its drop-in replacements, in the IDX file format. For where they are searched see data/load.h. Files are
// untrusted: magic number, counts, sizes and labels are checked before anything is returned. Format:
// http://yann.lecun.com/exdb/mnist.
#pragma once

#include <string>

#include "data/load.h"
#include "data/pipeline.h"

namespace mantissa::data {

// Reads one folder only. The files are {train,t10k}-{images-idx3,labels-idx1}-ubyte, plain or .gz, with '-' or '.'
// before idx. FormatError if one is damaged.
Dataset load_idx_folder(const std::string& dir, const std::string& name, Split split,
                        std::int64_t classes = 10);

// An IDX file of bytes, plain or gzip: u8 with `rank` dimensions (1 for labels, 3 for images).
Tensor read_idx(const std::string& path, int rank);

// Ready for a training loop, see data/pipeline.h.
inline Pipeline mnist(const std::string& dir = "", Split split = Split::train) {
  return Pipeline(load_dataset_or_warn("mnist", split, dir));
}
inline Pipeline mnist(Split split) { return mnist("", split); }
inline Pipeline fashion_mnist(const std::string& dir = "", Split split = Split::train) {
  return Pipeline(load_dataset_or_warn("fashion-mnist", split, dir));
}
inline Pipeline fashion_mnist(Split split) { return fashion_mnist("", split); }

}  // namespace mantissa::data
