#include "io/torch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_set>

#include "io/file_dtype.h"
#include "io/pickle.h"
#include "io/zip.h"

namespace mantissa::io {
namespace {

struct StorageClass {
  std::string_view name;
  const char* stored;
};
constexpr StorageClass storage_classes[] = {
    {"torch.FloatStorage", "F32"},  {"torch.DoubleStorage", "F64"},   {"torch.HalfStorage", "F16"},
    {"torch.LongStorage", "I64"},   {"torch.BFloat16Storage", "BF16"}, {"torch.IntStorage", "I32"},
    {"torch.ShortStorage", "I16"},  {"torch.CharStorage", "I8"},      {"torch.ByteStorage", "U8"},
    {"torch.BoolStorage", "BOOL"},
};
constexpr std::string_view parameter_name = "torch._utils._rebuild_parameter", size_name = "torch.Size",
                           device_name = "torch.device";
constexpr std::string_view tensor_names[] = {"torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_tensor"};
constexpr std::string_view dtype_names[] = {"torch.float32", "torch.float64", "torch.float16", "torch.bfloat16",
                                            "torch.int64",   "torch.int32",   "torch.int16",   "torch.int8",
                                            "torch.uint8",   "torch.bool"};

std::vector<std::string_view> data_names() {
  std::vector<std::string_view> names{"collections.OrderedDict", parameter_name, size_name, device_name};
  names.insert(names.end(), std::begin(tensor_names), std::end(tensor_names));
  names.insert(names.end(), std::begin(dtype_names), std::end(dtype_names));
  for (const StorageClass& c : storage_classes) names.push_back(c.name);
  return names;
}

constexpr int most_depth = 64, most_values = 1'000'000;

class Reader {
 public:
  explicit Reader(const std::string& path) : zip_(path), folder_(find_folder()) {
    const ZipEntry* order = zip_.find(folder_ + "byteorder");
    if (order && order->size < 16 && zip_.read(*order) == "big")
      fail_format(path, "was written by a big-endian machine, which is not read; load and save it in Python there");
  }

  TorchFile read() {
    const ZipEntry* entry = zip_.find(folder_ + "data.pkl");
    const std::string bytes = zip_.read(*entry);
    const std::vector<std::string_view> names = data_names();
    const Pickle pickle(bytes, zip_.path(), names);
    walk(pickle.root(), "", 0);
    return std::move(file_);
  }

 private:
  template <class... Parts> [[noreturn]] void wrong(const Parts&... parts) const { fail_format(zip_.path(), parts...); }

  // The archive's single top-level folder, with a trailing slash.
  std::string find_folder() const {
    constexpr std::string_view name = "data.pkl";
    const ZipEntry* found = nullptr;
    for (const ZipEntry& e : zip_.entries()) {
      if (e.name.ends_with("/constants.pkl"))
        wrong("is a TorchScript archive, which is a program; in Python, torch.save(model.state_dict(), path) writes "
              "its tensors");
      if (e.name.ends_with("/data.pkl") && e.name.find('/') + 1 + name.size() == e.name.size()) found = &e;
    }
    if (!found) wrong("is a zip archive, but not one that torch.save wrote: there is no data.pkl");
    return found->name.substr(0, found->name.size() - name.size());
  }

  std::string key_of(const PickleValue& v) const {
    if (v.kind == PickleValue::text) return std::string(v.letters);
    if (v.kind == PickleValue::integer) return concat(v.number);
    wrong("has a dictionary whose keys are neither text nor integers");
  }

  void walk(const PickleValue& v, const std::string& name, int depth) {
    if (depth > most_depth) wrong("is nested too deeply at ", quote(name));
    if (++walked_ > most_values) wrong("holds more than ", most_values, " values");
    const auto below = [&](const std::string& key) { return name.empty() ? key : name + "." + key; };
    switch (v.kind) {
      case PickleValue::mapping:
        for (std::size_t i = 0; i + 1 < v.items.size(); i += 2)
          walk(*v.items[i + 1], below(key_of(*v.items[i])), depth + 1);
        return;
      case PickleValue::sequence:
        for (std::size_t i = 0; i < v.items.size(); ++i) walk(*v.items[i], below(concat(i)), depth + 1);
        return;
      case PickleValue::call:
        if (v.items[0]->letters == size_name && v.items.size() == 2) return walk(*v.items[1], name, depth + 1);
        if (v.items[0]->letters == device_name) return add_value(name, device_of(v, name));
        add_tensor(name.empty() ? "tensor" : name, tensor_of(v, name));
        return;
      case PickleValue::none: return add_value(name, "None");
      case PickleValue::boolean: return add_value(name, v.number ? "True" : "False");
      case PickleValue::integer: return add_value(name, concat(v.number));
      case PickleValue::real: return add_value(name, fmt::format("{}", v.fraction));  // with full precision
      case PickleValue::text:
      case PickleValue::name: return add_value(name, std::string(v.letters));
      case PickleValue::persistent: wrong("holds a storage without a tensor at ", quote(name));
    }
  }
  void check_new(const std::string& name) {
    if (!taken_.insert(name).second) wrong("has two values of the name ", quote(name));
  }
  void add_tensor(const std::string& name, const Tensor& t) {
    check_new(name);
    file_.tensors.emplace_back(name, t);
  }
  void add_value(const std::string& name, std::string text) {
    check_new(name);
    file_.values.emplace_back(name, std::move(text));
  }

  // torch.device("cuda", 1) as "cuda:1".
  std::string device_of(const PickleValue& v, const std::string& name) const {
    std::string text;
    for (std::size_t i = 1; i < v.items.size(); ++i) {
      const PickleValue& part = *v.items[i];
      if (part.kind == PickleValue::text && i == 1) text = std::string(part.letters);
      else if (part.kind == PickleValue::integer && i == 2) text += concat(":", part.number);
      else wrong("has no device that can be read at ", quote(name));
    }
    return text;
  }
  Tensor tensor_of(const PickleValue& v, const std::string& name) {
    const std::string_view callee = v.items[0]->letters;
    if (callee == parameter_name && v.items.size() >= 2 && v.items[1]->kind == PickleValue::call &&
        v.items[1]->items[0]->letters != parameter_name)
      return tensor_of(*v.items[1], name);
    if (std::ranges::find(tensor_names, callee) == std::end(tensor_names) || v.items.size() < 5 ||
        v.items[1]->kind != PickleValue::persistent || v.items[2]->kind != PickleValue::integer)
      wrong("calls ", callee, " at ", quote(name), ", which makes no tensor");
    const Dims sizes = dims_of(*v.items[3], name), strides = dims_of(*v.items[4], name);
    const std::int64_t offset = v.items[2]->number;
    if (sizes.rank() != strides.rank()) wrong(quote(name), " has sizes ", sizes, " and strides ", strides);
    const Tensor& storage = storage_of(*v.items[1]->items[0], name);
    try {
      return storage.raw_view(sizes, strides, offset);  // checks bounds
    } catch (const Error&) {
      wrong(quote(name), ": sizes ", sizes, " with strides ", strides, " from ", offset,
            " on do not lie in its storage of ", storage.numel(), " elements");
    }
  }
  Dims dims_of(const PickleValue& v, const std::string& name) const {
    if (v.kind == PickleValue::call && v.items[0]->letters == size_name && v.items.size() == 2)
      return dims_of(*v.items[1], name);
    if (v.kind != PickleValue::sequence || v.items.size() > Dims::max_rank)
      wrong(quote(name), " has more than ", Dims::max_rank, " dimensions, or sizes that are none");
    Dims dims;
    for (const PickleValue* n : v.items) {
      if (n->kind != PickleValue::integer || n->number < 0) wrong(quote(name), " has a negative size or stride");
      dims.push_back(n->number);
    }
    return dims;
  }

  // ("storage", class, key, device, elements)
  const Tensor& storage_of(const PickleValue& id, const std::string& name) {
    const auto& part = id.items;
    const bool sound = id.kind == PickleValue::sequence && part.size() == 5 && part[0]->letters == "storage" &&
                       part[1]->kind == PickleValue::name && part[2]->kind == PickleValue::text &&
                       part[4]->kind == PickleValue::integer;
    const auto* c = sound ? std::ranges::find(storage_classes, part[1]->letters, &StorageClass::name) : nullptr;
    if (!c || c == std::end(storage_classes)) wrong(quote(name), " has no storage that can be read");
    const FileDtype& stored = *find_file_dtype(c->stored);
    const std::string entry_name = concat(folder_, "data/", std::string(part[2]->letters));
    const ZipEntry* entry = zip_.find(entry_name);
    if (!entry) wrong("has no entry ", quote(entry_name), " for ", quote(name));
    const std::int64_t count = part[4]->number;
    if (entry->deflated || count < 0 || count != entry->size / stored.bytes || entry->size % stored.bytes != 0)
      wrong("entry ", quote(entry_name), " has ", entry->size, " bytes where ", count, " elements of ", stored.bytes,
            " are expected");
    const auto [at, is_new] = storages_.try_emplace({entry, stored.name});
    if (is_new) at->second = load_storage(*entry, stored, count);
    return at->second;
  }
  Tensor load_storage(const ZipEntry& entry, const FileDtype& stored, std::int64_t count) const {
    const Tensor t = Tensor::allocate({count}, stored.loaded_as);
    std::string narrow(stored.is_widened() ? static_cast<std::size_t>(entry.size) : 0, '\0');
    void* to = stored.is_widened() ? narrow.data() : t.raw_data();
    zip_.read(entry, to);
    const std::string problem = take_stored(stored, to, t);
    if (!problem.empty()) wrong("entry ", quote(entry.name), ": ", problem);
    return t;
  }

  ZipReader zip_;
  std::string folder_;
  TorchFile file_;
  int walked_ = 0;
  std::unordered_set<std::string> taken_;
  std::map<std::pair<const ZipEntry*, std::string_view>, Tensor> storages_;
};

}  // namespace

bool is_torch_file(const std::string& path) { return FileReader(path).head(4) == "PK\3\4"; }

TorchFile load_torch(const std::string& path) {
  {
    // Before PyTorch 1.6 a file started with a pickled number: protocol 2, a ten-byte long.
    const std::string head = FileReader(path).head(4);
    if (head.starts_with("\x80\x02\x8a\x0a"))
      fail_format(path, "is of PyTorch's format before version 1.6; load and save it again with a newer PyTorch");
  }
  return Reader(path).read();
}

}  // namespace mantissa::io
