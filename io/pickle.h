// Pickled Python data as plain values: what torch.save writes around its tensors.
//
// Data only. A pickle is a program that may call any function of Python; here nothing is called and no object is made.
// The few names that stand for data (OrderedDict, torch's tensors and storages) become values of kind `call`, for the
// reader to make sense of; any other name is an error that says it. There is no switch that allows more.
// Format: Python's pickletools, the part of protocols 2 to 5 that containers, numbers and text need.
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
  std::int64_t number = 0;  // of a boolean too
  double fraction = 0;
  std::string_view letters;  // of a text, or "module.name"; lies in the pickle, or in Pickle
  // The elements of a list or tuple; keys and values in turns; a call's name and its arguments; a persistent id.
  std::vector<const PickleValue*> items;
};

class Pickle {
 public:
  // `names`: those of the program that are data, as "torch.FloatStorage". Throws FormatError with `path` and the place.
  // At most 64 MiB, a million operations. `bytes` must outlive this.
  Pickle(std::string_view bytes, const std::string& path, std::span<const std::string_view> names);
  Pickle(const Pickle&) = delete;

  // May contain itself, and share parts: whoever walks it needs a limit.
  const PickleValue& root() const { return *root_; }

 private:
  friend class PickleMachine;
  std::deque<PickleValue> values_;
  std::deque<std::string> joined_;  // module and name with a dot between them
  const PickleValue* root_ = nullptr;
};

}  // namespace mantissa::io
