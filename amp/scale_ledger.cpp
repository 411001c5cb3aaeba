#include "amp/scale_ledger.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "autograd/hooks.h"
#include "core/ops.h"

namespace mantissa::amp {
namespace {

// Null if nothing is known about the gradient.
autograd::LeafNode* noted_leaf_of(const Tensor& parameter) {
  autograd::LeafNode* leaf = autograd::leaf_of(parameter);
  return leaf && leaf->has_hooks() ? leaf : nullptr;
}
bool is_unscaled(std::uint64_t tag) { return tag & 1; }

}  // namespace

std::string to_string(const CallSite& site) { return concat(site.file_name(), ":", site.line()); }

bool carries_scale(const autograd::GradientTags& tags) { return !std::ranges::all_of(tags.tags, is_unscaled); }
bool carries_scale(const Tensor& parameter) {
  autograd::LeafNode* leaf = noted_leaf_of(parameter);
  if (!leaf) return false;
  const std::lock_guard lock(leaf->mutex);
  const autograd::GradientTags& tags = leaf->hooks().tags;
  return leaf->grad.defined() && leaf->grad.storage()->version() == tags.version && carries_scale(tags);
}

ScaleLedger::ScaleLedger() {
  static constinit std::atomic<std::uint64_t> counter{1};
  scaler_ = counter.fetch_add(1, std::memory_order_relaxed);
}

Tensor ScaleLedger::scaled_loss(const Tensor& scale, const CallSite& site) {
  Epoch& e = epochs_.back();
  if (!e.scale.defined()) e.scaled = site;
  e.scaled_last = site;
  e.scale = empty_like(scale).copy_(scale);
  return e.scale;
}

void ScaleLedger::scale_changed(const char* method, const CallSite& site) {
  const std::uint64_t next = epochs_.back().number + 1;
  if (epochs_.size() == remembered) epochs_.pop_front();
  epochs_.push_back({.number = next, .scale = {}, .began = site, .scaled = {}, .scaled_last = {}, .unscaled = {},
                     .began_by = method});
}

const ScaleLedger::Epoch* ScaleLedger::find(std::uint64_t tag) const {
  const std::uint64_t number = (tag & ((std::uint64_t{1} << 40) - 1)) >> 1, oldest = epochs_.front().number;
  return number < oldest ? nullptr : &epochs_[number - oldest];
}

Tensor ScaleLedger::scale_of(const Tensor& parameter, const Steppable& optimizer, std::size_t i) const {
  autograd::LeafNode* leaf = noted_leaf_of(parameter);
  if (!leaf) return {};
  const auto name = [&] { return optimizer.parameter_name(i); };
  std::vector<const Epoch*> scaled, unscaled;
  {
    const std::lock_guard lock(leaf->mutex);
    const auto& [tags, version] = leaf->hooks().tags;
    if (tags.empty() || (tags.size() == 1 && tags[0] == scaled_tag())) return {};
    const bool changed_since = leaf->grad.storage()->version() != version;  // modified from outside, e.g. zeroed
    for (std::uint64_t t : tags) {
      check(t >> 40 == scaler_, "GradScaler: the gradient of ", name(),
            " comes from a loss that another GradScaler has scaled; "
            "unscale and step with that one, and run backward for its losses by itself");
      const Epoch* e = find(t);
      check(e, "GradScaler: the gradient of ", name(), " was computed more than ", static_cast<int>(remembered),
            " updates ago; call zero_grad() in every iteration");
      if (!is_unscaled(t)) scaled.push_back(e);
      else if (!changed_since) unscaled.push_back(e);
    }
  }
  if (!unscaled.empty()) {
    const Epoch& u = *unscaled.back();
    check(
        u.number != epochs_.back().number, "GradScaler: the gradient of ", name(), " was already unscaled at ",
        to_string(u.unscaled),
        " in this iteration; is it a parameter of two optimizers? Give each parameter to one, or call backward once "
        "per optimizer");
    fail("GradScaler: the gradient of ", name(), " still holds what was unscaled at ", to_string(u.unscaled),
         " in an earlier iteration",
         scaled.empty() ? concat() : concat(", added to that of the loss scaled at ", to_string(scaled.back()->scaled)),
         "; call zero_grad() before backward");
  }
  if (scaled.empty()) return {};
  for (std::size_t k = 1; k < scaled.size(); ++k) {
    const Epoch &a = *scaled[0], &b = *scaled[k];
    const double x = a.scale.item<double>(), y = b.scale.item<double>();
    if (x == y) continue;
    const Epoch& later = a.number > b.number ? a : b;
    fail("GradScaler: the gradient of ", name(), " mixes losses scaled by ", x, " at ", to_string(a.scaled), " and by ",
         y, " at ",
         to_string(b.scaled), ": the scale was changed in between by ", later.began_by, " at ", to_string(later.began),
         ". Keep it while gradients accumulate: call update() only after the optimizer's step, or zero_grad() first");
  }
  return scaled[0]->number == epochs_.back().number ? Tensor() : scaled[0]->scale;
}

void ScaleLedger::unscaled(const Tensor& parameter, const CallSite& site) {
  epochs_.back().unscaled = site;
  autograd::LeafNode* leaf = noted_leaf_of(parameter);
  if (!leaf) return;
  const std::lock_guard lock(leaf->mutex);
  auto& [tags, version] = leaf->hooks().tags;
  if (tags.empty()) return;  // set from outside: stays unknown
  tags.assign(1, tag(epochs_.back().number, true));
  version = leaf->grad.storage()->version();
}

void ScaleLedger::check_still_unscaled(const Tensor& parameter, const Steppable& optimizer, std::size_t i) const {
  autograd::LeafNode* leaf = noted_leaf_of(parameter);
  if (!leaf || !leaf->grad.defined()) return;
  const std::lock_guard lock(leaf->mutex);
  for (std::uint64_t t : leaf->hooks().tags.tags) {
    if (is_unscaled(t) || t >> 40 != scaler_) continue;
    const Epoch* e = find(t);
    fail("GradScaler.step: the gradient of ", optimizer.parameter_name(i), " was given a scaled part",
         e ? concat(" (of the loss scaled at ", to_string(e->scaled_last), ")") : concat(), " after unscale_ at ",
         to_string(epochs_.back().unscaled), "; call unscale_ once, after the last backward of the iteration");
  }
}

}  // namespace mantissa::amp
