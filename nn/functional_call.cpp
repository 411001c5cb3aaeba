#include "nn/functional_call.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "core/error.h"
#include "io/checkpoint.h"

namespace mantissa::nn {
namespace {

// The members that hold tensors, by name; tied parameters are grouped.
struct Places final : Fields {
  struct Place {
    std::string name;
    std::vector<Tensor*> members;
    bool is_param;
  };
  std::vector<Place> places;
  std::unordered_map<std::string, std::size_t> by_name;

  explicit Places(ModuleRef m) { m.visit(*this); }
  void param(const std::string& path, Param& p) override { add(path, p, true); }
  void buffer(const std::string& path, Buffer& b) override { add(path, b, false); }
  std::string suggest(const std::string& name) const {
    std::vector<std::string> names;
    for (const auto& [own, place] : by_name) names.push_back(own);
    std::ranges::sort(names);  // a deterministic choice among equally near names
    return io::suggest_name(name, names);
  }

 private:
  void add(const std::string& path, Tensor& t, bool is_param) {
    if (!t.defined()) return;
    const auto [it, is_new] = seen_.try_emplace(t.impl(), places.size());
    if (is_new) places.push_back({path, {}, is_param});
    places[it->second].members.push_back(&t);
    by_name.emplace(path, it->second);
  }
  std::unordered_map<const TensorImpl*, std::size_t> seen_;
};

// Validates everything before changing anything.
void check_fits(const Places::Place& place, const Tensor& tensor) {
  check(tensor.defined(), "functional_call: the tensor for \"", place.name, "\" is undefined");
  const Tensor& own = *place.members[0];
  check(tensor.sizes() == own.sizes(), "functional_call: \"", place.name, "\" has shape ", own.sizes(),
        ", its tensor is ", tensor);
}

void substitute(const Places::Place& place, const Tensor& tensor, std::vector<std::pair<Tensor*, Tensor>>& before) {
  for (Tensor* member : place.members) {
    before.emplace_back(member, *member);
    *member = tensor;
  }
}

}  // namespace

Substituted::Substituted(ModuleRef module, const std::vector<Tensor>& tensors) {
  const Places all(module);
  std::vector<const Places::Place*> params;
  for (const auto& place : all.places)
    if (place.is_param) params.push_back(&place);
  check(params.size() == tensors.size(), "functional_call: the module has ", params.size(), " parameters, ",
        tensors.size(), " tensors were given; give some of them with their names");
  for (std::size_t i = 0; i < tensors.size(); ++i) check_fits(*params[i], tensors[i]);
  for (std::size_t i = 0; i < tensors.size(); ++i) substitute(*params[i], tensors[i], before_);
}

Substituted::Substituted(ModuleRef module, const NamedTensors& tensors) {
  const Places all(module);
  std::unordered_set<std::size_t> given;
  for (const auto& [name, tensor] : tensors) {
    const auto found = all.by_name.find(name);
    check(found != all.by_name.end(), "functional_call: the module has no parameter or buffer \"", name, "\"",
          all.suggest(name));
    check(given.insert(found->second).second, "functional_call: \"", name,
          "\" is given twice (or is tied to another one)");
    check_fits(all.places[found->second], tensor);
  }
  for (const auto& [name, tensor] : tensors) substitute(all.places[all.by_name.at(name)], tensor, before_);
}

Substituted::~Substituted() {
  for (auto& [member, own] : before_) *member = std::move(own);
}

}  // namespace mantissa::nn
