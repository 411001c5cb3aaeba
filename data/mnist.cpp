// Reads the four files of a dataset (data/idx.cpp) and checks their consistency.
#include "data/mnist.h"

#include <zlib.h>

#include "data/folders.h"
#include "data/formats.h"
#include "io/file.h"

namespace mantissa::data {
namespace {

// All these datasets use the same file names, so they are identified by the CRC-32 of the uncompressed label bytes.
// Mean and std are those of the training pixels.
struct KnownSet {
  const char* name;
  float mean, std;
  uLong label_crc[2];  // train, test
};
constexpr KnownSet known_sets[] = {
    {"mnist", 0.1307f, 0.3081f, {0xba07e8ef, 0xee8604d9}},
    {"fashion-mnist", 0.2860f, 0.3530f, {0x2ed6e46a, 0x242bc73f}},
};

const KnownSet* find_known(const std::string& name) {
  for (const KnownSet& k : known_sets) if (name == k.name) return &k;
  return nullptr;
}

const char* stem_of(Split split) { return split == Split::train ? "train" : "t10k"; }

// The path of e.g. train + images + idx3 in `dir`, or "".
std::string find_file(const std::string& dir, Split split, bool images) {
  const std::string stem = concat(dir, "/", stem_of(split), images ? "-images" : "-labels");
  for (const char* separator : {"-", "."})
    for (const char* ending : {"", ".gz"}) {
      const std::string path = concat(stem, separator, images ? "idx3" : "idx1", "-ubyte", ending);
      if (path_exists(path)) return path;
    }
  return "";
}

std::string require_file(const std::string& dir, Split split, bool images) {
  const std::string path = find_file(dir, split, images);
  check(!path.empty(), dir, " has no ", stem_of(split), images ? "-images-idx3-ubyte" : "-labels-idx1-ubyte",
        " (plain or .gz)");
  return path;
}

// The known dataset these labels belong to, or null.
const KnownSet* identify(const Tensor& labels, Split split) {
  const uLong crc = ::crc32_z(0, labels.data<std::uint8_t>(), static_cast<std::size_t>(labels.nbytes()));
  for (const KnownSet& k : known_sets) if (crc == k.label_crc[static_cast<int>(split)]) return &k;
  return nullptr;
}

Tensor checked_labels(const Tensor& bytes, const std::string& path, std::int64_t classes) {
  const Tensor labels = Tensor::allocate(bytes.sizes(), i64);
  const std::uint8_t* from = bytes.data<std::uint8_t>();
  for (std::int64_t i = 0; i < bytes.numel(); ++i) {
    if (from[i] >= classes)
      io::fail_format(path, "label ", static_cast<int>(from[i]), " at index ", i, " is not below the ",
                      classes, " classes");
    labels.data<std::int64_t>()[i] = from[i];
  }
  return labels;
}

}  // namespace

bool has_idx_files(const std::string& dir) {
  for (const Split split : {Split::train, Split::test})
    for (const bool images : {true, false})
      if (!find_file(dir, split, images).empty()) return true;
  return false;
}

// Whether a folder found by searching contains a different dataset than the one requested.
bool holds_another_idx_set(const std::string& dir, const std::string& name) {
  for (const Split split : {Split::train, Split::test}) {
    const std::string path = find_file(dir, split, false);
    if (path.empty()) continue;
    const KnownSet* found = identify(read_idx(path, 1), split);
    return found && found->name != name;
  }
  return false;
}

Dataset load_idx_folder(const std::string& dir, const std::string& name, Split split, std::int64_t classes) {
  check(classes >= 1 && classes <= 256, "a set of byte labels has 1 to 256 classes, asked for ", classes);
  const std::string image_path = require_file(dir, split, true), label_path = require_file(dir, split, false);
  const Tensor bytes = read_idx(label_path, 1);
  const KnownSet* found = identify(bytes, split);
  check(!found || !find_known(name) || found->name == name, dir, " holds the dataset ",
        found ? found->name : "", ", not ", name);
  Dataset set;
  set.labels = checked_labels(bytes, label_path, classes);
  const Tensor images = read_idx(image_path, 3);
  if (images.size(0) != set.labels.size(0))
    io::fail_format(image_path, "has ", images.size(0), " images, ", label_path, " has ", set.labels.size(0),
                    " labels");
  if (images.numel() == 0) io::fail_format(image_path, "holds no images: its sizes are ", images.sizes());
  Dims sizes = images.sizes(), strides = images.strides();
  sizes.insert(1, 1);
  strides.insert(1, strides[0]);
  set.images = images.raw_view(sizes, strides);
  set.classes = classes;
  set.name = name;
  if (const KnownSet* known = find_known(name)) {
    set.mean = {known->mean};
    set.std = {known->std};
  }
  set.source =
      concat(name, ": ", set.size(), split == Split::train ? " training" : " test", " images from ", dir);
  return set;
}

}  // namespace mantissa::data
