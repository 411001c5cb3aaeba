// Datasets by name, and where their files are searched for on this machine.
// Next: data/mnist.h and data/cifar.h, which read them; scripts/download.sh, which fetches them.
#pragma once

#include <string>

#include "data/dataset.h"

namespace mantissa::data {

enum class Split { train, test };

// `name` is "mnist", "fashion-mnist" (or "fashion"), "cifar10", "cifar100", or generated: "synthetic" (1x28x28) and
// "synthetic-color" (3x32x32). Searched for, in this order, in
//   dir/<name>, dir                           if `dir` is given: then nowhere else
//   $MANTISSA_DATA/<name>, $MANTISSA_DATA
//   $XDG_DATA_HOME/mantissa/datasets/<name>   (default ~/.local/share)
//   /usr/share/datasets/<name>                Debian's package dataset-fashion-mnist
// and in the folder that the dataset's archive unpacks to (cifar-10-batches-bin) inside each of these. If none of them
// has it, images of the same size are generated; Dataset::source says which it was. Error if `dir` has none of the
// files, some are missing, or they are those of another known dataset; FormatError if one is damaged.
Dataset load_dataset(const std::string& name, Split split = Split::train, const std::string& dir = "");
// The same, with a warning on stderr if the images are synthetic: for mnist(), cifar10(), ..., whose callers do not
// print Dataset::source.
Dataset load_dataset_or_warn(const std::string& name, Split split, const std::string& dir);

}  // namespace mantissa::data
