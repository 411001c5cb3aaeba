// Overlays: active policies, resolved for every module of the nets they name. Deduplicated, and kept until the program
// ends.
#include "amp/modules.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "amp/module_rules.h"
#include "amp/observe.h"
#include "core/error.h"

namespace mantissa::amp {

struct Overlay {
  std::vector<Policies::Entry> entries;      // sorted by name
  std::vector<const ModuleRules*> rules;     // of nested regions, outermost first
  struct At {
    const void* type;
    const PolicyModule* module;
  };
  std::deque<PolicyModule> modules;
  std::unordered_multimap<const void*, At> by_object;
  std::unordered_multimap<const TensorImpl*, const PolicyModule*> by_parameter;

  bool is(const std::vector<Policies::Entry>& e, const std::vector<const ModuleRules*>& r) const {
    return entries == e && rules == r;
  }
};

namespace {

bool lies_in(std::string_view path, std::string_view outer) {
  return outer.empty() || path == outer ||
         (path.size() > outer.size() && path.starts_with(outer) && path[outer.size()] == '.');
}

void merge(PolicyModule& module, const ModulePolicy& rule) {
  if (rule.all) {
    module.all = rule.all;
    module.entries.clear();
  }
  for (const auto& [op, policy] : rule.entries) put(module.entries, op, policy);
}
// Applies the rules that match the net, then those that match each module on the path down to this one; each rule once,
// where it first matches.
void apply_rules(PolicyModule& module, const ModulePolicies& rules) {
  std::vector<bool> applied(rules.size());
  const auto apply = [&](std::string_view prefix) {
    for (std::size_t i = 0; i < rules.size(); ++i) {
      if (applied[i] || !matches(rules[i].first, prefix)) continue;
      applied[i] = true;
      merge(module, rules[i].second);
    }
  };
  const std::string_view path = module.path;
  apply("");
  for (std::size_t dot = path.find('.'); dot != path.npos; dot = path.find('.', dot + 1)) apply(path.substr(0, dot));
  if (!path.empty()) apply(path);
}

void add_net(Overlay& overlay, const ModuleRules& net) {
  std::unordered_map<std::string, PolicyModule*> by_path;
  for (const ModuleList::Object& o : net.net.modules) {
    PolicyModule*& module = by_path[o.path];
    if (!module) {
      PolicyModule fresh;
      const auto [begin, end] = overlay.by_object.equal_range(o.object);
      for (auto at = begin; at != end; ++at) {  // an enclosing region already has rules for it
        if (at->second.type == o.type) fresh = *at->second.module;
      }
      fresh.path = o.path;
      apply_rules(fresh, net.rules);
      module = &overlay.modules.emplace_back(std::move(fresh));
    }
    const auto [begin, end] = overlay.by_object.equal_range(o.object);
    const auto same = std::find_if(begin, end, [&](const auto& e) { return e.second.type == o.type; });
    if (same != end) same->second.module = module;
    else overlay.by_object.emplace(o.object, Overlay::At{o.type, module});
  }
  for (const ModuleList::Parameter& p : net.net.parameters) {
    const auto [begin, end] = overlay.by_parameter.equal_range(p.tensor);
    const auto same = std::find_if(begin, end, [&](const auto& e) { return e.second->path == p.module; });
    if (same != end) same->second = by_path.at(p.module);
    else overlay.by_parameter.emplace(p.tensor, by_path.at(p.module));
  }
}

}  // namespace

const Overlay* overlay_on(const Overlay* outer, const Policies& policies) {
  if (policies.entries().empty() && policies.module_rules().empty()) return outer;
  std::vector<Policies::Entry> entries = outer ? outer->entries : std::vector<Policies::Entry>();
  for (const auto& [op, policy] : policies.entries()) put(entries, op, policy);
  std::vector<const ModuleRules*> rules = outer ? outer->rules : std::vector<const ModuleRules*>();
  for (const ModuleRules* r : policies.module_rules()) if (rules.empty() || rules.back() != r) rules.push_back(r);
  static std::mutex mutex;
  static std::vector<std::unique_ptr<const Overlay>> in_use;
  const std::lock_guard lock(mutex);
  for (const auto& o : in_use) if (o->is(entries, rules)) return o.get();
  auto fresh = std::make_unique<Overlay>();
  fresh->entries = std::move(entries);
  fresh->rules = std::move(rules);
  for (const ModuleRules* r : fresh->rules) add_net(*fresh, *r);
  return in_use.emplace_back(std::move(fresh)).get();
}

const CastPolicy* find_policy(const Overlay* overlay, const char* op) {
  return overlay ? find_policy(overlay->entries, op) : nullptr;
}
const CastPolicy* find_policy(const PolicyModule& module, const char* op) {
  const CastPolicy* p = find_policy(module.entries, op);
  return p ? p : module.all ? &*module.all : nullptr;
}

const PolicyModule* module_of(const Overlay& overlay, const PolicyModule* current, std::span<const Tensor* const> x) {
  if (overlay.by_parameter.empty()) return current;
  for (const Tensor* t : x) {
    if (!t->defined()) continue;
    const auto [begin, end] = overlay.by_parameter.equal_range(t->impl());
    for (auto at = begin; at != end; ++at) {
      if (!current || lies_in(at->second->path, current->path)) return at->second;
    }
  }
  return current;
}

void InModule::enter(const void* object, const void* type) {
  const auto [begin, end] = context().autocast.overlay->by_object.equal_range(object);
  const PolicyModule* found = nullptr;
  for (auto at = begin; at != end; ++at) {
    if (at->second.type == type) {
      found = at->second.module;
      break;
    }
    // If a base class called: the deepest module at this address.
    if (!found || at->second.module->path.size() > found->path.size()) found = at->second.module;
  }
  if (found) context().autocast.module = found;
}

}  // namespace mantissa::amp
