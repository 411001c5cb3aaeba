// Pickled Python data as plain values: what torch.save writes around its tensors.
//
// Data only. A pickle is a program that may call any Python function; here nothing is called and no object is created.
// The few known names (OrderedDict, torch's tensors and storages) become values of kind `call`, interpreted by the
// reader; any other name is an error that states it. There is no option to allow more.
// Format: Python's pickletools, the part of protocols 2 to 5 needed for containers, numbers and text.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mantissa::io {

struct PickleValue {
  enum Kind : std::uint8_t { none, boolean, integer, real, text, sequence, mapping, name, call, persistent };
  Kind kind = none;
  std::int64_t number = 0;  // also for booleans
  double fraction = 0;
  std::string_view letters;  // a text, or "module.name"; points into the pickle's bytes, or into Pickle
  // Elements of a list or tuple; alternating keys and values; a call's name and arguments; a persistent id.
  std::vector<const PickleValue*> items;
};

class Pickle {
 public:
  // `names`: the allowed names, such as "torch.FloatStorage". Throws FormatError with `path` and the position. At most
  // 64 MiB and a million operations. `bytes` must outlive this.
  Pickle(std::string_view bytes, const std::string& path, std::span<const std::string_view> names);
  Pickle(const Pickle&) = delete;

  // May be cyclic and share parts: traversals need a limit.
  const PickleValue& root() const { return *root_; }

 private:
  friend class PickleMachine;
  std::deque<PickleValue> values_;
  std::deque<std::string> joined_;  // "module.name" strings
  const PickleValue* root_ = nullptr;
};

}  // namespace mantissa::io
