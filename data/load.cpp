// The list of known datasets, and the search for them in the usual folders.
#include "data/load.h"

#include <cstdio>
#include <vector>

#include "data/cifar.h"
#include "data/folders.h"
#include "data/formats.h"
#include "data/mnist.h"
#include "data/synthetic.h"
#include "io/file.h"

namespace mantissa::data {
namespace {

struct Known {
  const char *name, *unpacked;  // unpacked: the folder that its archive unpacks to, or ""
  const char* expected;         // its files, for messages
  bool color;
};
constexpr const char* idx_files = "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and "
                                  "t10k-labels-idx1-ubyte (plain or .gz)";
constexpr Known known_sets[] = {
    {"mnist", "", idx_files, false},
    {"fashion-mnist", "", idx_files, false},
    {"cifar10", "cifar-10-batches-bin",
     "data_batch_1.bin to data_batch_5.bin and test_batch.bin, or cifar-10-binary.tar.gz", true},
    {"cifar100", "cifar-100-binary", "train.bin and test.bin, or cifar-100-binary.tar.gz", true}};

const Known* find_known(const std::string& name) {
  for (const Known& k : known_sets) if (name == k.name) return &k;
  return nullptr;
}

// Each folder, followed by its sub-folder that the dataset's archive unpacks to.
std::vector<std::string> with_unpacked(const std::vector<std::string>& folders, const Known& set) {
  std::vector<std::string> all;
  for (const std::string& folder : folders) {
    all.push_back(folder);
    if (*set.unpacked) all.push_back(folder + "/" + set.unpacked);
  }
  return all;
}

bool has_files(const std::string& folder, const Known& set) {
  return set.color ? has_cifar_files(folder, set.name) : has_idx_files(folder);
}

Dataset load_folder(const std::string& folder, const Known& set, Split split) {
  if (!set.color) return load_idx_folder(folder, set.name, split);
  return load_cifar(folder, std::string(set.name) == "cifar10" ? Cifar::ten : Cifar::hundred, split);
}

Dataset draw(bool color, Split split, const std::string& why) {
  const bool train = split == Split::train;
  const std::int64_t count = train ? 12000 : 2000;
  Dataset set = color ? synthetic_color_digits(count, 0, train ? 0 : 1) : synthetic_digits(count, 0, train ? 0 : 1);
  set.source += why;
  return set;
}

}  // namespace

Dataset load_dataset(const std::string& asked, Split split, const std::string& dir) {
  const std::string name = asked == "fashion" ? "fashion-mnist" : asked;
  if (name == "synthetic" || name == "synthetic-color") return draw(name == "synthetic-color", split, "");
  const Known* set = find_known(name);
  check(set != nullptr, "unknown dataset ", io::quote(asked),
        ", expected mnist, fashion-mnist, cifar10, cifar100, synthetic or synthetic-color");
  if (!dir.empty()) {
    for (const std::string& folder : with_unpacked({dir + "/" + name, dir}, *set))
      if (has_files(folder, *set)) return load_folder(folder, *set, split);
    const bool there = path_exists(dir);
    fail(there ? "the folder " : "there is no folder ", dir, there ? " holds no " : " with ", name, ": expected ",
         set->expected, ", there or in its subfolder ", name);
  }
  std::string searched;
  for (const std::string& folder : with_unpacked(usual_folders(name), *set)) {
    if (has_files(folder, *set) && (set->color || !holds_another_idx_set(folder, name)))
      return load_folder(folder, *set, split);
    searched += (searched.empty() ? "" : ", ") + folder;
  }
  return draw(set->color, split,
              concat(", because no ", name, " was found in ", searched, "; scripts/download.sh ", name, " fetches it"));
}

Dataset load_dataset_or_warn(const std::string& name, Split split, const std::string& dir) {
  Dataset set = load_dataset(name, split, dir);
  if (set.name.starts_with("synthetic")) std::fprintf(stderr, "data: %s\n", set.source.c_str());
  return set;
}

}  // namespace mantissa::data
