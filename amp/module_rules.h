// Policies for a net's modules, selected by path patterns. Used by policies_for in nn/amp.h.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "amp/modules.h"
#include "amp/policies.h"

namespace mantissa::amp {

// The policy of a rule: one for every operator in the module, or policies for some operators.
struct ModulePolicy {
  ModulePolicy(CastPolicy policy) : all(policy) {}
  ModulePolicy(const Policies& policies);  // must not contain module rules
  std::optional<CastPolicy> all;
  std::vector<Policies::Entry> entries;
  bool operator==(const ModulePolicy&) const = default;
};

// Patterns and policies. A pattern is a path in which "*" matches any characters within one name, and a name "**" any
// number of names. A rule applies to the module and everything in it. If several apply, the one for the innermost
// module wins, then the later one; module rules take precedence over a region's operator policies.
using ModulePolicies = std::vector<std::pair<std::string, ModulePolicy>>;

struct ModuleRules {
  ModuleList net;
  ModulePolicies rules;
  bool operator==(const ModuleRules&) const = default;
};

bool matches(std::string_view pattern, std::string_view path);

// Throws for a pattern that matches no module, suggesting the nearest path.
Policies policies_for(ModuleList net, const ModulePolicies& rules);
// {"exp": "keep", "modules": {"blocks.*.norm": "f32", "head": {"linear": "f32"}}}: operators as in Policies::from_json,
// and module patterns.
Policies policies_from_json(ModuleList net, std::string_view text, std::string_view where = "policies");
std::string to_json(const ModulePolicies& rules);  // policies_from_json reads it

}  // namespace mantissa::amp
