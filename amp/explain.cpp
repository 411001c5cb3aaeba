#include "amp/explain.h"

#include <algorithm>

#include "amp/autocast.h"
#include "amp/policies.h"

namespace mantissa::amp {
namespace {

thread_local Explain* explaining = nullptr;
thread_local CastStatistics at_begin;

const char* reason_for(CastPolicy policy, bool own) {
  if (!own) return "the region's policies";
  return policy == CastPolicy::keep ? "no policy of its own" : "the operator's own";
}

}  // namespace

Explain::Explain() : outer_(explaining) { explaining = this; }
Explain::~Explain() { explaining = outer_; }

bool Explaining::active() { return explaining != nullptr; }

void Explaining::begin(const char* op, CastPolicy policy, bool own, std::span<const Tensor* const> x) {
  Decision d;
  d.op = op;
  d.policy = name_of(policy);
  d.reason = reason_for(policy, own);
  for (const Tensor* t : x) {
    if (!d.inputs.empty()) d.inputs += ' ';
    d.inputs += t->defined() ? (t->is_weak_scalar() ? "number" : name_of(t->dtype())) : "none";
  }
  explaining->open_ = std::move(d);
  at_begin = cast_statistics();
}

void Explaining::end(const Tensor& result) {
  if (!explaining || explaining->open_.op.empty()) return;
  Decision d = std::exchange(explaining->open_, {});
  d.output = result.defined() ? name_of(result.dtype()) : "none";
  std::vector<Decision>& all = explaining->decisions_;
  const auto same = [&](const Decision& o) {
    return o.op == d.op && o.policy == d.policy && o.reason == d.reason && o.inputs == d.inputs && o.output == d.output;
  };
  auto at = std::ranges::find_if(all, same);
  if (at == all.end()) at = all.insert(all.end(), std::move(d));
  const CastStatistics now = cast_statistics();
  ++at->calls;
  at->bytes_cast += now.bytes - at_begin.bytes;
  at->shadow_hits += static_cast<std::int64_t>(now.hits - at_begin.hits);
}

std::string Explain::table() const {
  std::vector<std::vector<std::string>> rows{{"operator", "policy", "reason", "inputs", "output", "calls", "bytes cast", "hits"}};
  for (const Decision& d : decisions_) {
    rows.push_back({d.op, d.policy, d.reason, d.inputs, d.output, concat(d.calls), concat(d.bytes_cast), concat(d.shadow_hits)});
  }
  std::vector<std::size_t> width(rows[0].size());
  for (const auto& row : rows) for (std::size_t k = 0; k < row.size(); ++k) width[k] = std::max(width[k], row[k].size());
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t k = 0; k < row.size(); ++k) {
      text += row[k];
      if (k + 1 < row.size()) text.append(width[k] - row[k].size() + 2, ' ');
    }
    text += '\n';
  }
  return text;
}

}  // namespace mantissa::amp
