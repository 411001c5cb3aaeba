#include "amp/module_rules.h"

#include <algorithm>
#include <list>
#include <mutex>
#include <nlohmann/json.hpp>

#include "amp/nearest.h"
#include "core/error.h"
#include "core/json_text.h"

namespace mantissa::amp {
namespace {

// Matches one name: "*" stands for any characters.
bool matches_name(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern.front() != '*')
    return !name.empty() && pattern.front() == name.front() && matches_name(pattern.substr(1), name.substr(1));
  for (std::size_t skip = 0; skip <= name.size(); ++skip) {
    if (matches_name(pattern.substr(1), name.substr(skip))) return true;
  }
  return false;
}
// Removes and returns the first name of a path.
std::string_view take_name(std::string_view& path) {
  const std::size_t dot = path.find('.');
  const std::string_view name = path.substr(0, dot);
  path.remove_prefix(dot == path.npos ? path.size() : dot + 1);
  return name;
}
ModulePolicy policy_from_json(const nlohmann::json& json, const std::string& where) {
  if (json.is_string()) return policy_from_name(json.get_ref<const std::string&>());
  if (!json.is_object())
    throw FormatError(concat("the policy of \"", where, "\" must be a string or an object of operators"));
  return Policies::from_json(json.dump(), where);
}

}  // namespace

ModulePolicy::ModulePolicy(const Policies& policies) : entries(policies.entries()) {
  check(policies.module_rules().empty(), "the policies of a module are about operators, not about modules again");
}

bool matches(std::string_view pattern, std::string_view path) {
  if (pattern.empty()) return path.empty();
  std::string_view rest = pattern;
  const std::string_view name = take_name(rest);
  if (name != "**") {
    if (path.empty()) return false;
    std::string_view path_rest = path;
    return matches_name(name, take_name(path_rest)) && matches(rest, path_rest);
  }
  for (std::string_view tail = path;; take_name(tail)) {
    if (matches(rest, tail)) return true;
    if (tail.empty()) return false;
  }
}

Policies policies_for(ModuleList net, const ModulePolicies& rules) {
  for (const auto& rule : rules) {
    const std::string& pattern = rule.first;
    const bool found =
        std::ranges::any_of(net.modules, [&](const ModuleList::Object& o) { return matches(pattern, o.path); });
    if (found) continue;
    std::vector<std::string> paths;
    for (const ModuleList::Object& o : net.modules) if (!o.path.empty()) paths.push_back(o.path);
    fail("policies_for: no module matches \"", pattern, "\"; did you mean \"", nearest(pattern, paths), "\"?");
  }
  ModuleRules wanted{std::move(net), rules};
  static std::mutex mutex;
  static std::list<ModuleRules> known;  // never freed: captured states refer to them
  const std::lock_guard lock(mutex);
  auto at = std::ranges::find(known, wanted);
  if (at == known.end()) at = known.insert(at, std::move(wanted));
  return Policies().add(&*at);
}

Policies policies_from_json(ModuleList net, std::string_view text, std::string_view where) {
  check_json(text, std::string(where));
  nlohmann::json json = nlohmann::json::parse(text);
  if (!json.is_object()) throw FormatError(concat(where, ": expected a JSON object of operators and policies"));
  const nlohmann::json modules = json.contains("modules") ? json["modules"] : nlohmann::json::object();
  if (!modules.is_object())
    throw FormatError(concat(where, ": \"modules\" must be an object of patterns and policies"));
  json.erase("modules");
  Policies policies = Policies::from_json(json.dump(), where);
  ModulePolicies rules;
  try {
    for (const auto& [pattern, policy] : modules.items())
      rules.emplace_back(pattern, policy_from_json(policy, pattern));
    policies.add(policies_for(std::move(net), rules).module_rules().front());
  } catch (const Error& e) {
    throw FormatError(concat(where, ": ", e.what()));
  }
  return policies;
}

std::string to_json(const ModulePolicies& rules) {
  nlohmann::json modules = nlohmann::json::object();
  for (const auto& [pattern, policy] : rules) {
    if (policy.all) modules[pattern] = name_of(*policy.all);
    else for (const auto& [op, p] : policy.entries) modules[pattern][op] = name_of(p);
  }
  return nlohmann::json{{"modules", modules}}.dump(2);
}

}  // namespace mantissa::amp
