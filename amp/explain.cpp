#include "amp/explain.h"

#include <algorithm>

#include "amp/autocast.h"
#include "amp/text_table.h"

namespace mantissa::amp {
namespace {

thread_local CastStatistics at_begin;

std::string reason_for(const OperatorCall& call) {
  switch (call.decider) {
    case Decider::region: return "the region's policies";
    case Decider::module: return concat("module ", call.module->path.empty() ? "(the net)" : call.module->path);
    case Decider::operator_itself: break;
  }
  return call.policy == CastPolicy::keep ? "no policy of its own" : "the operator's own";
}

}  // namespace

void Explain::begin(const OperatorCall& call) {
  Decision d;
  d.op = call.op;
  d.policy = name_of(call.policy);
  d.reason = reason_for(call);
  if (call.module) d.module = call.module->path;
  for (const Tensor* t : call.inputs) {
    if (!d.inputs.empty()) d.inputs += ' ';
    d.inputs += t->defined() ? (t->is_weak_scalar() ? "number" : mantissa::name_of(t->dtype())) : "none";
  }
  open_ = std::move(d);
  at_begin = cast_statistics();
}

void Explain::end(const Tensor& result) {
  if (open_.op.empty()) return;
  Decision d = std::exchange(open_, {});
  d.output = result.defined() ? mantissa::name_of(result.dtype()) : "none";
  if (result.defined()) result_bytes_[static_cast<std::size_t>(result.dtype())] += result.nbytes();
  const auto same = [&](const Decision& o) {
    return o.op == d.op && o.policy == d.policy && o.reason == d.reason && o.inputs == d.inputs &&
           o.output == d.output && o.module == d.module;
  };
  auto at = std::ranges::find_if(decisions_, same);
  if (at == decisions_.end()) at = decisions_.insert(decisions_.end(), std::move(d));
  const CastStatistics now = cast_statistics();
  ++at->calls;
  at->bytes_cast += now.bytes - at_begin.bytes;
  at->shadow_hits += static_cast<std::int64_t>(now.hits - at_begin.hits);
}

std::vector<std::string> Explain::without_policy() const {
  std::vector<std::string> names;
  for (const Decision& d : decisions_) {
    if (d.reason == "no policy of its own" && std::ranges::find(names, d.op) == names.end()) names.push_back(d.op);
  }
  return names;
}

std::string Explain::table() const {
  const bool modules = std::ranges::any_of(decisions_, [](const Decision& d) { return !d.module.empty(); });
  std::vector<std::vector<std::string>> rows{
      {"operator", "policy", "reason", "inputs", "output", "calls", "bytes cast", "hits"}};
  if (modules) rows[0].push_back("module");
  for (const Decision& d : decisions_) {
    rows.push_back(
        {d.op, d.policy, d.reason, d.inputs, d.output, concat(d.calls), concat(d.bytes_cast), concat(d.shadow_hits)});
    if (modules) rows.back().push_back(d.module);
  }
  return text_table(rows);
}

}  // namespace mantissa::amp
