// Other policies than the operators' own, for a region and those inside it:
//
//   amp::Autocast region({.dtype = f16, .policies = amp::Policies::torch_cuda()});
//   amp::Policies p;
//   p.set("softmax", CastPolicy::f32);
//   p = amp::Policies::from_json(R"({"exp": "keep", "matmul": "f32"})");
//
// The operators' own are one table for all devices. It follows PyTorch's list for CUDA except that norms and softmax
// compute in f32 and give what came in ("f32_inside"): no cast tensor, half the traffic, one rounding more. PyTorch's
// two lists, which differ from each other, are there for parity. An operator is known when it is in the registry
// (MANTISSA_OP, MANTISSA_COMPOSITE with has_policy); another name is an error that tells the nearest.
// Policies for single modules: amp::policies_for in nn/amp.h.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "amp/policy.h"

namespace mantissa::amp {

struct Overlay;      // a set of policies in use: core/context.h points to it
struct ModuleRules;  // policies of a net's modules: amp/module_rules.h

class Policies {
 public:
  using Entry = std::pair<std::string, CastPolicy>;

  Policies() = default;  // every operator's own
  // PyTorch's, for a GPU and for the CPU: every operator gets what the list says, or else `keep`.
  static Policies torch_cuda();
  static Policies torch_cpu();
  // An object of names and "keep", "lower", "f32", "promote", "f32_inside", "f32_default" or "banned".
  // `where`: for messages.
  static Policies from_json(std::string_view text, std::string_view where = "policies");

  Policies& set(std::string_view op, CastPolicy policy);  // a later call replaces an earlier one
  const std::vector<Entry>& entries() const { return entries_; }  // sorted by name
  const std::vector<const ModuleRules*>& module_rules() const { return module_rules_; }
  Policies& add(const ModuleRules* rules);  // amp::policies_for does
  std::string to_json() const;              // of the operators' entries; from_json reads it

 private:
  std::vector<Entry> entries_;
  std::vector<const ModuleRules*> module_rules_;
};

const char* name_of(CastPolicy policy);
CastPolicy policy_from_name(std::string_view name);  // throws with the nearest

// PyTorch's lists, by its names, whether or not there is such an operator here.
std::vector<Policies::Entry> torch_cuda_list();
std::vector<Policies::Entry> torch_cpu_list();

// Of the machinery. Operators announce themselves when the program starts. Sets in use are kept for the life of the
// program, equal ones once, so that a captured state stays valid wherever it is carried.
void announce_operator(const char* name, CastPolicy own);
const Overlay* overlay_on(const Overlay* outer, const Policies& policies);
const CastPolicy* find_policy(const Overlay* overlay, const char* op);  // null: the operator's own
const CastPolicy* find_policy(const std::vector<Policies::Entry>& entries, const char* op);
void put(std::vector<Policies::Entry>& entries, std::string_view op, CastPolicy policy);

}  // namespace mantissa::amp
