#include "amp/gradient_pass.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "autograd/grad_mode.h"
#include "core/memory_order.h"
#include "core/multi_tensor.h"
#include "core/ops.h"

namespace mantissa::amp {
namespace {

// Few, and short-lived: from unscale_ to step. Shared by all threads, because a pass may be destroyed in another one.
std::mutex living_mutex;
GradientPass* living_passes = nullptr;

Tensor new_summary(Device device) {
  static_assert(sizeof(GradientSummary) == 5 * sizeof(double));
  return empty({5}, {.dtype = f64, .device = device});  // the kernel writes all fields
}
GradientSummary* fields_of(const Tensor& summary) { return reinterpret_cast<GradientSummary*>(summary.data<double>()); }

// Views of gradients as flat arrays; those that have gaps are copied.
struct DenseViews {
  void add(const Tensor& g, std::int64_t parameter) {
    const bool flat = is_dense(g);
    if (!flat) copies.emplace_back(g, dense(g, Layout::contiguous));
    const Tensor& from = flat ? g : copies.back().second;
    views.push_back({from.raw_data(), from.numel(), from.dtype(), parameter});
  }
  void write_back() { for (auto& [gradient, dense] : copies) gradient.copy_(dense); }

  std::vector<GradientView> views;
  std::vector<std::pair<Tensor, Tensor>> copies;  // gradient, dense copy
};

}  // namespace

GradientPass::GradientPass(std::span<const NumberedGradient> gradients, Tensor scale, bool write, const Tensor& before)
    : write_(write), scale_(std::move(scale)),
      found_inf_(mantissa::empty({}, {.dtype = boolean, .device = scale_.device()})),
      summary_(new_summary(scale_.device())), norm_(mantissa::empty({}, {.device = scale_.device()})) {
  const NoGrad no_grad;
  DenseViews dense;
  for (const auto& [g, parameter] : gradients) {
    gradients_.push_back(g);
    dense.add(g, parameter);
  }
  kernels::unscale_gradients(scale_.device(), std::span<const GradientView>(dense.views), scale_.data<float>(), write,
                             before.defined() ? before.data<bool>() : nullptr, found_inf_.data<bool>(),
                             fields_of(summary_), norm_.data<float>());
  if (!write) return;
  dense.write_back();
  for (const Tensor& g : gradients_) {
    g.storage()->written_by("unscale_");
    versions_.push_back(g.storage()->version());
  }
  const std::lock_guard lock(living_mutex);
  next_ = std::exchange(living_passes, this);
}

void GradientPass::clip(const Tensor& norm, double max_norm) {
  const NoGrad no_grad;
  DenseViews dense;
  for (const Tensor& g : gradients_) dense.add(g, 0);
  kernels::scale_gradients(scale_.device(), std::span<const GradientView>(dense.views), norm.data<float>(), max_norm);
  dense.write_back();
  for (const Tensor& g : gradients_) g.storage()->written_by("gradient clipping");
}

GradientPass::~GradientPass() {
  const std::lock_guard lock(living_mutex);
  for (GradientPass** p = &living_passes; *p; p = &(*p)->next_) {
    if (*p != this) continue;
    *p = next_;
    return;
  }
}

bool GradientPass::is_start_of(std::span<const Tensor> gradients) const {
  if (gradients.size() < gradients_.size()) return false;
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    if (!gradients[i].is_same(gradients_[i]) || gradients_[i].storage()->version() != versions_[i]) return false;
  }
  return true;
}

Tensor joint_norm(std::span<const Tensor> summaries) {
  Tensor squares;
  for (const Tensor& summary : summaries) {
    const Tensor sum = summary.raw_view({}, {}, 0);
    squares = squares.defined() ? add(squares, sum) : sum;
  }
  return sqrt(squares).to(f32);
}

Tensor known_norm(std::span<const Tensor> gradients) {
  const std::lock_guard lock(living_mutex);
  std::vector<Tensor> summaries;
  Tensor norm;  // of the last pass
  while (!gradients.empty()) {
    const GradientPass* pass = living_passes;
    while (pass && (pass->empty() || !pass->is_start_of(gradients))) pass = pass->next_;
    if (!pass) return {};
    norm = pass->norm();
    summaries.push_back(pass->summary());
    gradients = gradients.subspan(pass->size());
  }
  return summaries.size() > 1 ? joint_norm(summaries) : norm;
}

GradientStats StepResult::gradients() const {
  double squares = 0;
  GradientStats all;
  for (const Tensor& summary : summaries_) {
    const std::vector<double> s = summary.to_vector<double>();
    squares += s[0];
    all.largest = std::max(all.largest, s[1]);
    all.infs += static_cast<std::int64_t>(s[2]);
    all.nans += static_cast<std::int64_t>(s[3]);
    const auto bad = static_cast<std::int64_t>(s[4]);
    if (bad >= 0 && (all.first_bad < 0 || bad < all.first_bad)) all.first_bad = bad;
  }
  all.norm = std::sqrt(squares);
  return all;
}

std::vector<GradientReport> check_gradients(const Steppable& optimizer) {
  const NoGrad no_grad;
  std::vector<GradientReport> bad;
  const std::vector<Tensor> parameters = optimizer.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor g = parameters[i].grad();
    if (!g.defined()) continue;
    GradientReport r{.parameter = optimizer.parameter_name(i)};
    double squares = 0;
    for (double x : g.to_vector<double>()) {
      if (std::isnan(x)) ++r.nans;
      else if (std::isinf(x)) ++r.infs;
      else {
        squares += x * x;
        r.largest = std::max(r.largest, std::abs(x));
      }
    }
    r.norm = std::sqrt(squares);
    if (r.infs + r.nans > 0) bad.push_back(std::move(r));
  }
  return bad;
}

}  // namespace mantissa::amp
