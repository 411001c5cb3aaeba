// ModuleList and ModuleDict: several modules of one type as one member, named by index or key.
//   nn::ModuleList<Block> blocks;             // "blocks.0.weight"; a std::vector: fill it with emplace_back, or
//   auto blocks = nn::module_list(Block(8), Block(16));
//   nn::ModuleDict<nn::Linear> heads;         // "heads.digits.weight"
// Modules of different types go into separate members, or into nn::Sequential.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "nn/clone.h"
#include "nn/fields.h"

namespace mantissa::nn {

template <class M> using ModuleList = std::vector<M>;

// Makes a list of the given modules. (An initializer list cannot: it copies, and modules are move-only.)
template <class M, class... More>
  requires(std::is_same_v<M, More> && ...)
ModuleList<M> module_list(M first, More... more) {
  ModuleList<M> list;
  list.reserve(1 + sizeof...(More));
  list.push_back(std::move(first));
  (list.push_back(std::move(more)), ...);
  return list;
}

// Keeps insertion order. A key must not be empty, contain a dot or appear twice.
template <class M> class ModuleDict {
 public:
  M& insert(std::string key, M module) {
    check(!key.empty() && key.find('.') == std::string::npos,
          "ModuleDict: \"", key, "\" is no key: it is empty or contains a dot");
    check(!contains(key), "ModuleDict: the key \"", key, "\" exists already");
    return items_.emplace_back(std::move(key), std::move(module)).second;
  }
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  std::size_t size() const { return items_.size(); }
  M& operator[](std::string_view key) { return const_cast<M&>(std::as_const(*this)[key]); }
  const M& operator[](std::string_view key) const {
    const M* found = find(key);
    check(found, "ModuleDict: there is no module \"", key, "\"");
    return *found;
  }
  const std::vector<std::pair<std::string, M>>& items() const { return items_; }

  void fields(Fields& visitor) {
    for (auto& [key, module] : items_) visitor.visit(key, module);
  }
  ModuleDict clone() const {
    ModuleDict copy;
    for (const auto& [key, module] : items_) copy.items_.emplace_back(key, detail::clone_value(module));
    return copy;
  }

 private:
  const M* find(std::string_view key) const {
    for (const auto& item : items_) if (item.first == key) return &item.second;
    return nullptr;
  }
  std::vector<std::pair<std::string, M>> items_;
};

// Bare parameters: "list.0", "dict.scale".
using ParameterList = std::vector<Param>;
using ParameterDict = ModuleDict<Param>;

}  // namespace mantissa::nn
