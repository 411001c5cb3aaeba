// Overrides the operators' own policies, for a region and those nested in it:
//
//   amp::Autocast region({.dtype = f16, .policies = amp::Policies::torch_cuda()});
//   amp::Policies p;
//   p.set("softmax", CastPolicy::f32);
//   p = amp::Policies::from_json(R"({"exp": "keep", "matmul": "f32"})");
//
// The operators' own policies are the same on all devices. They follow PyTorch's CUDA list, except that norms and
// softmax compute in f32 and return the input's dtype ("f32_inside"): no cast tensor, half the memory traffic, one more
// rounding. PyTorch's two lists, which differ from each other, are available for parity. Operators are known if
// registered (MANTISSA_OP, MANTISSA_COMPOSITE with has_policy); another name is an error that suggests the nearest.
// Per-module policies: amp::policies_for in nn/amp.h.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "amp/policy.h"

namespace mantissa::amp {

struct Overlay;      // a set of policies in use, referenced by core/context.h
struct ModuleRules;  // policies of a net's modules: amp/module_rules.h

class Policies {
 public:
  using Entry = std::pair<std::string, CastPolicy>;

  Policies() = default;  // every operator's own
  // PyTorch's lists for CUDA and for the CPU: operators on the list get its policy, all others `keep`.
  static Policies torch_cuda();
  static Policies torch_cpu();
  // A JSON object from names to "keep", "lower", "f32", "promote", "f32_inside", "f32_default" or "banned". `where`:
  // prefix of error messages.
  static Policies from_json(std::string_view text, std::string_view where = "policies");

  Policies& set(std::string_view op, CastPolicy policy);  // a later call replaces an earlier one
  const std::vector<Entry>& entries() const { return entries_; }  // sorted by name
  const std::vector<const ModuleRules*>& module_rules() const { return module_rules_; }
  Policies& add(const ModuleRules* rules);  // called by amp::policies_for
  std::string to_json() const;              // of the operators' entries; readable by from_json

 private:
  std::vector<Entry> entries_;
  std::vector<const ModuleRules*> module_rules_;
};

const char* name_of(CastPolicy policy);
CastPolicy policy_from_name(std::string_view name);  // throws for an unknown name, suggesting the nearest

// PyTorch's lists under its own names, including operators that do not exist here.
std::vector<Policies::Entry> torch_cuda_list();
std::vector<Policies::Entry> torch_cpu_list();

// Internal. Operators register themselves at program start. Policy sets in use are deduplicated and kept until program
// exit, so a captured state stays valid in any thread.
void announce_operator(const char* name, CastPolicy own);
const Overlay* overlay_on(const Overlay* outer, const Policies& policies);
const CastPolicy* find_policy(const Overlay* overlay, const char* op);  // null: the operator's own
const CastPolicy* find_policy(const std::vector<Policies::Entry>& entries, const char* op);
void put(std::vector<Policies::Entry>& entries, std::string_view op, CastPolicy policy);

}  // namespace mantissa::amp
