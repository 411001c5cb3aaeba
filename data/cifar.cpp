// A record is one label byte (CIFAR-100: superclass, class) and 3072 pixels: 1024 red, 1024 green, 1024 blue.
#include "data/cifar.h"

#include <algorithm>
#include <cstring>
#include <sstream>
#include <vector>

#include "data/folders.h"
#include "data/formats.h"
#include "data/tar.h"
#include "io/file.h"

namespace mantissa::data {
namespace {

using io::fail_format;

constexpr std::int64_t pixels = 3 * 32 * 32;

struct Layout {
  const char* name;
  std::int64_t classes;
  int label_bytes, label_at;
  std::vector<std::string> files[2];  // train, test
  const char *names_file, *archive;
  std::vector<float> mean, std;  // of the training images
};

const Layout& layout_of(Cifar kind) {
  static const std::vector<std::string> ten{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                            "data_batch_4.bin", "data_batch_5.bin"};
  static const std::vector<float> mean100{0.5071f, 0.4865f, 0.4409f}, std100{0.2673f, 0.2564f, 0.2762f};
  static const Layout layouts[] = {
      {"cifar10", 10, 1, 0, {ten, {"test_batch.bin"}}, "batches.meta.txt", "cifar-10-binary.tar",
       {0.4914f, 0.4822f, 0.4465f}, {0.2470f, 0.2435f, 0.2616f}},
      {"cifar100", 100, 2, 1, {{"train.bin"}, {"test.bin"}}, "fine_label_names.txt", "cifar-100-binary.tar",
       mean100, std100},
      {"cifar100", 20, 2, 0, {{"train.bin"}, {"test.bin"}}, "coarse_label_names.txt", "cifar-100-binary.tar",
       mean100, std100}};
  return layouts[static_cast<int>(kind)];
}

// Collects the files of one split, in any order. The first one determines the length of all.
class Collector {
 public:
  Collector(const Layout& layout, Split split)
      : layout_(layout), files_(layout.files[static_cast<int>(split)]), seen_(files_.size()) {
    set_.name = layout.name;
    set_.classes = layout.classes;
    set_.mean = layout.mean;
    set_.std = layout.std;
  }
  // Whether a file of this name belongs to the split.
  bool wants(const std::string& name) const { return std::find(files_.begin(), files_.end(), name) != files_.end(); }

  // `read(out, n)` reads the next n of the file's `size` bytes. `place`: the file's name in messages.
  template <class Read> void add(const std::string& name, const std::string& place, std::int64_t size, Read read) {
    const std::int64_t record = layout_.label_bytes + pixels, count = size / record;
    if (size % record != 0 || count == 0)
      fail_format(place, "has ", size, " bytes, which is not a multiple of the ", record, " bytes of a ", layout_.name,
                  " record");
    if (!set_.images.defined()) allocate(count);
    if (count != per_file_)
      fail_format(place, "has ", count, " pictures, another file of the same set has ", per_file_,
                  ": one of them is incomplete");
    const auto slot = static_cast<std::size_t>(std::find(files_.begin(), files_.end(), name) - files_.begin());
    if (seen_[slot]) fail_format(place, "comes twice");
    seen_[slot] = true;
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(record));
    for (std::int64_t i = 0; i < count; ++i) {
      read(bytes.data(), record);
      const std::uint8_t label = bytes[static_cast<std::size_t>(layout_.label_at)];
      if (label >= layout_.classes)
        fail_format(place, "label ", static_cast<int>(label), " of picture ", i, " is not below the ", layout_.classes,
                    " classes");
      const std::int64_t at = static_cast<std::int64_t>(slot) * count + i;
      set_.labels.data<std::int64_t>()[at] = label;
      std::memcpy(set_.images.data<std::uint8_t>() + at * pixels, bytes.data() + layout_.label_bytes, pixels);
    }
  }
  void add_names(const std::string& place, const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty() && line.back() == '\r') line.pop_back();
      if (!line.empty()) set_.class_names.push_back(line);
    }
    if (static_cast<std::int64_t>(set_.class_names.size()) != layout_.classes)
      fail_format(place, "names ", set_.class_names.size(), " classes, expected ", layout_.classes);
  }
  Dataset finish(const std::string& path, Split split) {
    for (std::size_t i = 0; i < files_.size(); ++i) check(seen_[i], path, " has no ", files_[i]);
    set_.source =
        concat(layout_.name, ": ", set_.size(), split == Split::train ? " training" : " test", " images from ", path);
    return std::move(set_);
  }

 private:
  void allocate(std::int64_t count) {
    per_file_ = count;
    const std::int64_t total = count * static_cast<std::int64_t>(files_.size());
    set_.images = Tensor::allocate({total, 3, 32, 32}, u8);
    set_.labels = Tensor::allocate({total}, i64);
  }

  const Layout& layout_;
  const std::vector<std::string>& files_;
  std::vector<bool> seen_;
  std::int64_t per_file_ = 0;
  Dataset set_;
};

constexpr std::int64_t longest_names = 65536;

void read_archive(const std::string& path, const Layout& layout, Collector& collector) {
  ByteStream bytes(path);
  TarReader tar(bytes);
  while (tar.next()) {
    const std::string name = tar.name().substr(tar.name().rfind('/') + 1);
    const std::string place = concat(path, ": ", io::quote(tar.name()));
    if (collector.wants(name)) {
      collector.add(name, place, tar.size(), [&](void* out, std::int64_t n) { tar.read(out, n); });
    } else if (name == layout.names_file && tar.size() <= longest_names) {
      std::string text(static_cast<std::size_t>(tar.size()), '\0');
      tar.read(text.data(), tar.size());
      collector.add_names(place, text);
    }
  }
}

void read_folder(const std::string& dir, const Layout& layout, Split split, Collector& collector) {
  for (const std::string& name : layout.files[static_cast<int>(split)]) {
    const std::string path = dir + "/" + name;
    check(path_exists(path), dir, " has no ", name);
    const io::FileReader file(path);
    if (const char* foreign = io::recognise(file.head()); foreign && file.size() % (layout.label_bytes + pixels) != 0)
      fail_format(path, "is not a file of ", layout.name, "; it looks like ", foreign);
    std::int64_t at = 0;
    collector.add(name, path, file.size(), [&](void* out, std::int64_t n) {
      file.read(out, n, at);
      at += n;
    });
  }
  if (const std::string names = dir + "/" + layout.names_file; path_exists(names))
    collector.add_names(names, io::read_file(names, longest_names));
}

// The path of the archive in a folder, or "".
std::string find_archive(const std::string& dir, const Layout& layout) {
  for (const char* ending : {".gz", ""})
    if (const std::string path = concat(dir, "/", layout.archive, ending); path_exists(path)) return path;
  return "";
}

bool has_batches(const std::string& dir, const Layout& layout) {
  for (const auto& split : layout.files)
    for (const std::string& name : split)
      if (path_exists(dir + "/" + name)) return true;
  return false;
}

}  // namespace

bool has_cifar_files(const std::string& dir, const std::string& name) {
  const Layout& layout = layout_of(name == "cifar10" ? Cifar::ten : Cifar::hundred);
  return has_batches(dir, layout) || !find_archive(dir, layout).empty();
}

Dataset load_cifar(const std::string& path, Cifar kind, Split split) {
  const Layout& layout = layout_of(kind);
  check(path_exists(path), "there is no file or folder ", path);
  Collector collector(layout, split);
  const std::string archive = !is_folder(path) ? path : has_batches(path, layout) ? "" : find_archive(path, layout);
  if (archive.empty()) read_folder(path, layout, split, collector);
  else read_archive(archive, layout, collector);
  return collector.finish(archive.empty() ? path : archive, split);
}

}  // namespace mantissa::data
