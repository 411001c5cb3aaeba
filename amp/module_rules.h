// Policies of a net's modules, by patterns of paths. Made by policies_for in nn/amp.h.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "amp/modules.h"
#include "amp/policies.h"

namespace mantissa::amp {

// What a rule says: a policy for every operator in the module, or policies for some.
struct ModulePolicy {
  ModulePolicy(CastPolicy policy) : all(policy) {}
  ModulePolicy(const Policies& policies);  // without rules for modules
  std::optional<CastPolicy> all;
  std::vector<Policies::Entry> entries;
  bool operator==(const ModulePolicy&) const = default;
};

// Patterns and policies. A pattern is a path; in it "*" stands for any letters of one name, and a name "**" for any
// number of names. A rule holds for the module and for all in it. Where several hold, the one for the module deepest
// in the net wins, then the later; what a module's rules say goes before what regions say about operators.
using ModulePolicies = std::vector<std::pair<std::string, ModulePolicy>>;

struct ModuleRules {
  ModuleList net;
  ModulePolicies rules;
  bool operator==(const ModuleRules&) const = default;
};

bool matches(std::string_view pattern, std::string_view path);

// Throws for a pattern that no module matches, with the nearest path.
Policies policies_for(ModuleList net, const ModulePolicies& rules);
// {"exp": "keep", "modules": {"blocks.*.norm": "f32", "head": {"linear": "f32"}}}: operators as in
// Policies::from_json, and patterns of modules.
Policies policies_from_json(ModuleList net, std::string_view text, std::string_view where = "policies");
std::string to_json(const ModulePolicies& rules);  // policies_from_json reads it

}  // namespace mantissa::amp
