#include "amp/policies.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "amp/nearest.h"
#include "core/error.h"
#include "core/json_text.h"

namespace mantissa::amp {
namespace {

constexpr const char* policy_names[] = {"keep", "lower", "f32", "promote", "f32_inside", "f32_default", "banned"};

// Every operator whose policy can be set: those with a kernel, and composites with a policy.
std::map<std::string, CastPolicy, std::less<>>& known_operators() {
  static std::map<std::string, CastPolicy, std::less<>> operators;
  return operators;
}

// The list's policy for each operator, or `keep` if it has none.
std::vector<Policies::Entry> for_all_operators(const std::vector<Policies::Entry>& list) {
  std::vector<Policies::Entry> entries;
  for (const auto& [name, own] : known_operators()) {
    const CastPolicy* listed = find_policy(list, name.c_str());
    // Gradient kernels keep the dtypes of their forward; PyTorch's lists do not contain them.
    const CastPolicy policy = listed ? *listed : CastPolicy::keep;
    if (policy != own) entries.emplace_back(name, policy);
  }
  return entries;
}

}  // namespace

void put(std::vector<Policies::Entry>& entries, std::string_view op, CastPolicy policy) {
  const auto at =
      std::ranges::lower_bound(entries, op, {}, [](const Policies::Entry& e) { return std::string_view(e.first); });
  if (at != entries.end() && at->first == op) at->second = policy;
  else entries.emplace(at, op, policy);
}
const CastPolicy* find_policy(const std::vector<Policies::Entry>& entries, const char* op) {
  const std::string_view name(op);
  const auto at =
      std::ranges::lower_bound(entries, name, {}, [](const Policies::Entry& e) { return std::string_view(e.first); });
  return at != entries.end() && at->first == name ? &at->second : nullptr;
}

const char* name_of(CastPolicy policy) { return policy_names[static_cast<int>(policy)]; }

CastPolicy policy_from_name(std::string_view name) {
  const auto at = std::ranges::find(policy_names, name);
  if (at == std::end(policy_names))
    fail("there is no cast policy \"", name, "\"; did you mean \"", nearest(name, policy_names), "\"?");
  return static_cast<CastPolicy>(at - policy_names);
}

void announce_operator(const char* name, CastPolicy own) { known_operators().emplace(name, own); }

Policies& Policies::set(std::string_view op, CastPolicy policy) {
  if (!known_operators().contains(op)) {
    std::vector<std::string> names;
    for (const auto& [name, own] : known_operators()) names.push_back(name);
    fail("Policies: there is no operator \"", op, "\"; did you mean \"", nearest(op, names), "\"?");
  }
  put(entries_, op, policy);
  return *this;
}
Policies& Policies::add(const ModuleRules* rules) {
  module_rules_.push_back(rules);
  return *this;
}

Policies Policies::torch_cuda() {
  Policies p;
  p.entries_ = for_all_operators(torch_cuda_list());
  return p;
}
Policies Policies::torch_cpu() {
  Policies p;
  p.entries_ = for_all_operators(torch_cpu_list());
  return p;
}

Policies Policies::from_json(std::string_view text, std::string_view where) {
  check_json(text, std::string(where));
  const nlohmann::json json = nlohmann::json::parse(text);
  if (!json.is_object()) throw FormatError(concat(where, ": expected a JSON object of operators and policies"));
  Policies p;
  for (const auto& [op, policy] : json.items()) {
    if (op == "modules")
      throw FormatError(concat(where, ": holds policies of modules; read it with policies_for(net, text)"));
    if (!policy.is_string()) throw FormatError(concat(where, ": the policy of \"", op, "\" must be a string"));
    try {
      p.set(op, policy_from_name(policy.get_ref<const std::string&>()));
    } catch (const Error& e) {
      throw FormatError(concat(where, ": ", e.what()));
    }
  }
  return p;
}
std::string Policies::to_json() const {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [op, policy] : entries_) json[op] = name_of(policy);
  return json.dump(2);
}

}  // namespace mantissa::amp
