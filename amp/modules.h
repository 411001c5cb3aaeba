// Determines which module an operator runs in, so that a region can have per-module policies (amp::policies_for in
// nn/amp.h) and reports can name layers. An operator that takes a parameter belongs to the module that owns it; for
// others the module must say so in the first line of its call:
//
//   Tensor operator()(const Tensor& x) const {
//     const amp::InModule here(*this);   // one test when no region asks for modules
//     ...
//
// The nn layers that run more than one operator have that line, and so do the layers of a Sequential.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "amp/policies.h"
#include "core/context.h"
#include "core/tensor.h"

namespace mantissa::amp {

// Identifies a type: a module and its first member have the same address.
template <class M> inline constexpr char type_tag = 0;

// The modules of a net and the parameters they own, by address: made by nn::module_list. The net must not be moved
// while this is in use.
struct ModuleList {
  struct Object {
    const void* object;
    const void* type;
    std::string path;  // "blocks.0.norm"; empty for the net itself
    bool operator==(const Object&) const = default;
  };
  struct Parameter {
    const TensorImpl* tensor;
    std::string module;  // the path of its owner
    bool operator==(const Parameter&) const = default;
  };
  std::vector<Object> modules;
  std::vector<Parameter> parameters;
  bool operator==(const ModuleList&) const = default;
};

struct PolicyModule {  // a module with its effective policies
  std::string path;
  std::optional<CastPolicy> all;          // for every operator,
  std::vector<Policies::Entry> entries;   // except these; sorted by name
};

const CastPolicy* find_policy(const PolicyModule& module, const char* op);  // null: no rule applies
// The module that owns one of these inputs, if it is inside `current` (null: the net); else `current`.
const PolicyModule* module_of(const Overlay& overlay, const PolicyModule* current, std::span<const Tensor* const> x);

class [[nodiscard]] InModule {
 public:
  template <class M> explicit InModule(const M& module) : before_(context().autocast.module) {
    if (context().autocast.overlay) [[unlikely]] enter(&module, &type_tag<M>);
  }
  ~InModule() { context().autocast.module = before_; }
  InModule(const InModule&) = delete;
  InModule& operator=(const InModule&) = delete;

 private:
  static void enter(const void* object, const void* type);
  const PolicyModule* before_;
};

}  // namespace mantissa::amp
