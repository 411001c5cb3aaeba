// MNIST and its drop-in replacements: the IDX file format, and where on this machine the files are.
// Files are hostile: magic number, counts, sizes and labels are checked before anything is returned.
// Format: http://yann.lecun.com/exdb/mnist.
#pragma once

#include <string>

#include "data/dataset.h"
#include "data/pipeline.h"

namespace mantissa::data {

enum class Split { train, test };

// `name` is "mnist", "fashion-mnist" (or "fashion") or "synthetic". Looked for, in this order, in
//   dir/<name>, dir                           when `dir` is given: then nowhere else
//   $MANTISSA_DATA/<name>, $MANTISSA_DATA
//   $XDG_DATA_HOME/mantissa/datasets/<name>   (default ~/.local/share)
//   /usr/share/datasets/<name>                Debian's package dataset-fashion-mnist
// and, when none of them has it, drawn by synthetic_digits(); Dataset::source says which it was.
// The files are {train,t10k}-{images-idx3,labels-idx1}-ubyte, plain or .gz, with '-' or '.' before
// idx. Error when `dir` has none of them, some are missing, or they are those of another known set;
// FormatError when one is damaged.
Dataset load_dataset(const std::string& name, Split split = Split::train, const std::string& dir = "");

// One folder, without looking elsewhere.
Dataset load_idx_folder(const std::string& dir, const std::string& name, Split split,
                        std::int64_t classes = 10);

// An IDX file of bytes, plain or gzip: u8 of `rank` dimensions (1 for labels, 3 for images).
Tensor read_idx(const std::string& path, int rank);

// Ready for a training loop, see data/pipeline.h.
inline Pipeline mnist(const std::string& dir = "", Split split = Split::train) {
  return Pipeline(load_dataset("mnist", split, dir));
}
inline Pipeline fashion_mnist(const std::string& dir = "", Split split = Split::train) {
  return Pipeline(load_dataset("fashion-mnist", split, dir));
}

}  // namespace mantissa::data
