#include "amp/policies.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace mantissa::amp {

struct Overlay {
  std::vector<Policies::Entry> entries;  // sorted by name
};

namespace {

constexpr const char* policy_names[] = {"keep", "lower", "f32", "promote", "f32_inside"};

std::vector<std::string>& known_operators() {
  static std::vector<std::string> names;
  return names;
}

// Levenshtein's distance: how many letters must be inserted, removed or replaced.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}
template <class Names> std::string nearest(std::string_view name, const Names& names) {
  std::string best;
  std::size_t least = SIZE_MAX;
  for (const auto& candidate : names) {
    const std::size_t d = distance(name, candidate);
    if (d >= least) continue;
    least = d;
    best = candidate;
  }
  return best;
}

void put(std::vector<Policies::Entry>& entries, std::string_view op, CastPolicy policy) {
  const auto at = std::ranges::lower_bound(entries, op, {}, [](const Policies::Entry& e) { return std::string_view(e.first); });
  if (at != entries.end() && at->first == op) at->second = policy;
  else entries.emplace(at, op, policy);
}

}  // namespace

const char* name_of(CastPolicy policy) { return policy_names[static_cast<int>(policy)]; }

CastPolicy policy_from_name(std::string_view name) {
  const auto at = std::ranges::find(policy_names, name);
  if (at == std::end(policy_names)) fail("there is no cast policy \"", name, "\"; did you mean \"", nearest(name, policy_names), "\"?");
  return static_cast<CastPolicy>(at - policy_names);
}

void announce_operator(const char* name) { known_operators().emplace_back(name); }

Policies& Policies::set(std::string_view op, CastPolicy policy) {
  const std::vector<std::string>& known = known_operators();
  if (std::ranges::find(known, op) == known.end()) {
    fail("Policies: there is no operator \"", op, "\"; did you mean \"", nearest(op, known), "\"?");
  }
  put(entries_, op, policy);
  return *this;
}

Policies Policies::f32_inside() {
  Policies p;
  for (const char* op : {"softmax", "log_softmax", "layer_norm"}) put(p.entries_, op, CastPolicy::f32_inside);
  return p;
}

Policies Policies::from_json(std::string_view text, std::string_view where) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) throw FormatError(concat(where, ": expected a JSON object of operators and policies"));
  Policies p;
  for (const auto& [op, policy] : json.items()) {
    if (!policy.is_string()) throw FormatError(concat(where, ": the policy of \"", op, "\" must be a string"));
    try {
      p.set(op, policy_from_name(policy.get_ref<const std::string&>()));
    } catch (const Error& e) {
      throw FormatError(concat(where, ": ", e.what()));
    }
  }
  return p;
}

const Overlay* overlay_on(const Overlay* outer, const Policies& policies) {
  if (policies.entries().empty()) return outer;
  std::vector<Policies::Entry> entries = outer ? outer->entries : std::vector<Policies::Entry>();
  for (const auto& [op, policy] : policies.entries()) put(entries, op, policy);
  static std::mutex mutex;
  static std::vector<std::unique_ptr<const Overlay>> in_use;
  const std::lock_guard lock(mutex);
  for (const auto& o : in_use) if (o->entries == entries) return o.get();
  return in_use.emplace_back(new Overlay{std::move(entries)}).get();
}

const CastPolicy* find_policy(const Overlay* overlay, const char* op) {
  if (!overlay) return nullptr;
  const std::string_view name(op);
  const auto at = std::ranges::lower_bound(overlay->entries, name, {}, [](const Policies::Entry& e) { return std::string_view(e.first); });
  return at != overlay->entries.end() && at->first == name ? &at->second : nullptr;
}

}  // namespace mantissa::amp
