#include "optim/lbfgs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/ops.h"
#include "core/recording.h"
#include "io/checkpoint.h"

namespace mantissa::optim {
namespace {

constexpr const char* hyper_names[] = {"lr"};

bool finite(const Tensor& x) { return std::isfinite(abs(x).sum().item<double>()); }

// The minimum, within [low, high], of the cubic through two values and slopes; the interval's midpoint if a number is
// not finite or there is no minimum.
double cubic_minimum(double x1, double f1, double g1, double x2, double f2, double g2, double low, double high) {
  const double d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2), square = d1 * d1 - g1 * g2;
  if (!(square >= 0) || !std::isfinite(square)) return (low + high) / 2;
  const double d2 = std::sqrt(square);
  const double at = x1 <= x2 ? x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
                             : x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2));
  return std::isfinite(at) ? std::clamp(at, low, high) : (low + high) / 2;
}

}  // namespace

LBFGS::LBFGS(Parameters parameters, const LBFGSOptions& o) : Optimizer(MemoryOptions{}), options_(o) {
  check(o.lr >= 0, "LBFGS: lr must not be negative, got ", o.lr);
  check(o.max_iter >= 1, "LBFGS: max_iter must be at least 1, got ", o.max_iter);
  check(o.history_size >= 1, "LBFGS: history_size must be at least 1, got ", o.history_size);
  Group g;
  g.hyper_names = hyper_names;
  g.hyper_values = {o.lr};
  g.parameters = std::move(parameters.tensors);
  g.names = std::move(parameters.names);
  add_group(std::move(g));
  d_ = zeros_like(flat_parameters());
  prev_gradient_ = zeros_like(d_);
}

void LBFGS::step_unless(const Tensor&) {
  fail(
      "LBFGS: needs to evaluate the loss several times; call opt.step(closure) with a closure that calls backward and "
      "returns the loss. With a GradScaler the closure also calls scaler.unscale_(opt) and scaler.update(), and nobody "
      "calls scaler.step");
}

Tensor LBFGS::flat_parameters() const {
  const NoGrad no_grad;
  const auto& list = group_list()[0].parameters;
  const bool wide = std::ranges::any_of(list, [](const Tensor& p) { return p.dtype() == f64; });
  std::vector<Tensor> flat;
  for (const Tensor& p : list) flat.push_back(p.detach().reshape({-1}).to(wide ? f64 : f32));
  return cat(flat);
}
void LBFGS::set_parameters(const Tensor& flat) {
  const NoGrad no_grad;
  std::int64_t begin = 0;
  Group& g = group_list()[0];
  for (std::size_t i = 0; i < g.parameters.size(); ++i) {
    const Tensor& p = g.parameters[i];
    write_value(g, i, flat.slice(0, begin, begin + p.numel()).reshape(p.sizes()));
    begin += p.numel();
  }
}
void LBFGS::move(double t) { set_parameters(flat_parameters() + d_ * t); }

// The loss and its gradient at the current parameters. A NaN loss counts as infinite.
LBFGS::Point LBFGS::evaluate(const std::function<Tensor()>& closure, Tensor* result) {
  ++func_evals_;
  Tensor loss;
  {
    const EnableGrad enable;
    loss = closure();
  }
  check(loss.defined() && loss.numel() == 1, "LBFGS: the closure must return the loss, a tensor of one element, got ",
        loss);
  if (result) *result = loss;
  const NoGrad no_grad;
  std::vector<Tensor> flat;
  for (const Tensor& p : group_list()[0].parameters) {
    const Tensor g = p.grad();
    flat.push_back(g.defined() ? g.reshape({-1}).to(d_.dtype())
                               : zeros({p.numel()}, {.dtype = d_.dtype(), .device = p.device()}));
  }
  check_may_read("LBFGS", loss, "the line search decides on the host");
  const double sign = options_.maximize ? -1 : 1, value = sign * loss.item<double>();
  const Tensor gradient = cat(flat);
  return {.loss = std::isnan(value) ? std::numeric_limits<double>::infinity() : value,
          .gradient = options_.maximize ? -gradient : gradient};
}
LBFGS::Point LBFGS::evaluate_at(const std::function<Tensor()>& closure, const Tensor& x, double t) {
  move(t);
  Point p = evaluate(closure);
  p.slope = dot(p.gradient, d_).item<double>();
  if (!std::isfinite(p.slope)) p.loss = std::numeric_limits<double>::infinity();
  set_parameters(x);
  return p;
}

bool LBFGS::small(const Tensor& x, double limit) const {
  return x.numel() == 0 || abs(x).max().item<double>() <= limit;
}

// d = -H g, with H from the stored differences: the two-loop recursion.
void LBFGS::next_direction(const Point& now) {
  if (++n_iter_ == 1) {
    d_ = -now.gradient;
    old_dirs_.clear();
    old_stps_.clear();
    ro_.clear();
    h_diag_ = 1;
    return;
  }
  const Tensor y = now.gradient - prev_gradient_, s = d_ * t_;
  const double ys = dot(y, s).item<double>();
  if (ys > 1e-10) {
    if (static_cast<int>(old_dirs_.size()) == options_.history_size) {
      old_dirs_.erase(old_dirs_.begin());
      old_stps_.erase(old_stps_.begin());
      ro_.erase(ro_.begin());
    }
    old_dirs_.push_back(y);
    old_stps_.push_back(s);
    ro_.push_back(1 / ys);
    h_diag_ = ys / dot(y, y).item<double>();
  }
  std::vector<double> al(old_dirs_.size());
  Tensor q = -now.gradient;
  for (std::size_t i = old_dirs_.size(); i-- > 0;) {
    al[i] = dot(old_stps_[i], q).item<double>() * ro_[i];
    q = q - old_dirs_[i] * al[i];
  }
  d_ = q * h_diag_;
  for (std::size_t i = 0; i < old_dirs_.size(); ++i) {
    const double be = dot(old_dirs_[i], d_).item<double>() * ro_[i];
    d_ = d_ + old_stps_[i] * (al[i] - be);
  }
}

Tensor LBFGS::step(const std::function<Tensor()>& closure) {
  const NoGrad no_grad;
  const int before = func_evals_, max_eval = options_.max_eval.value_or(options_.max_iter * 5 / 4);
  Tensor first_loss;
  Point now = evaluate(closure, &first_loss);
  if (small(now.gradient, options_.tolerance_grad) || !finite(now.gradient) || !std::isfinite(now.loss))
    return first_loss;
  for (int n = 1;; ++n) {
    next_direction(now);
    prev_gradient_ = now.gradient;
    prev_loss_ = now.loss;
    t_ = n_iter_ == 1 ? std::min(1.0, 1 / abs(now.gradient).sum().item<double>()) * lr() : lr();
    now.slope = dot(now.gradient, d_).item<double>();
    if (now.slope > -options_.tolerance_change) break;
    bool flat = false;
    if (options_.line_search_fn == LineSearch::strong_wolfe) {
      now = strong_wolfe(closure, now, t_, max_eval - (func_evals_ - before));
      move(t_);
      flat = small(now.gradient, options_.tolerance_grad);
    } else {
      const Tensor x = flat_parameters();
      move(t_);
      if (n != options_.max_iter) {
        now = evaluate(closure);
        if (!std::isfinite(now.loss) || !finite(now.gradient)) {
          set_parameters(x);
          t_ = 0;
          break;
        }
        flat = small(now.gradient, options_.tolerance_grad);
      }
    }
    if (n == options_.max_iter || func_evals_ - before >= max_eval || flat) break;
    if (small(d_ * t_, options_.tolerance_change) || std::abs(now.loss - prev_loss_) < options_.tolerance_change) break;
  }
  return first_loss;
}

// Finds a step length that satisfies the strong Wolfe conditions: brackets one, then narrows the bracket. Returns the
// best evaluation and its step length in t; the parameters are restored.
LBFGS::Point LBFGS::strong_wolfe(const std::function<Tensor()>& closure, const Point& start, double& t,
                                 int max_evaluations) {
  constexpr double c1 = 1e-4, c2 = 0.9;
  struct End {
    double t;
    Point point;
  };
  const Tensor x = flat_parameters();
  const double size = d_.numel() == 0 ? 0 : abs(d_).max().item<double>();
  const auto too_high = [&](const End& e) { return e.point.loss > start.loss + c1 * e.t * start.slope; };
  const auto flat_enough = [&](const End& e) { return std::abs(e.point.slope) <= -c2 * start.slope; };

  End low{0, start}, high{t, evaluate_at(closure, x, t)};  // `low` is the earlier end until a bracket is found
  bool done = false;
  int n = 0;
  for (; n < max_evaluations; ++n) {
    if (too_high(high) || (n > 1 && high.point.loss >= low.point.loss)) break;
    if (flat_enough(high)) {
      low = high;
      done = true;
      break;
    }
    if (high.point.slope >= 0) break;
    const double next = cubic_minimum(low.t, low.point.loss, low.point.slope, high.t, high.point.loss, high.point.slope,
                                      high.t + 0.01 * (high.t - low.t), high.t * 10);
    low = std::exchange(high, {next, evaluate_at(closure, x, next)});
  }
  if (n == max_evaluations) low = {0, start};
  if (!done && low.point.loss > high.point.loss) std::swap(low, high);

  bool slow = false;  // two steps in a row close to an end of the bracket
  for (; !done && n < max_evaluations; ++n) {
    const double left = std::min(low.t, high.t), right = std::max(low.t, high.t);
    if ((right - left) * size < options_.tolerance_change) break;
    // The order of the two ends is PyTorch's; it affects only the last bits.
    double at =
        cubic_minimum(low.t, low.point.loss, low.point.slope, high.t, high.point.loss, high.point.slope, left, right);
    const double margin = 0.1 * (right - left);
    if (std::min(right - at, at - left) < margin) {
      if (slow || at >= right || at <= left) {
        at = std::abs(at - right) < std::abs(at - left) ? right - margin : left + margin;
        slow = false;
      } else {
        slow = true;
      }
    } else {
      slow = false;
    }
    End now{at, evaluate_at(closure, x, at)};
    if (too_high(now) || now.point.loss >= low.point.loss) {
      high = std::move(now);
      if (low.point.loss > high.point.loss) std::swap(low, high);
      continue;
    }
    if (flat_enough(now)) done = true;
    else if (now.point.slope * (high.t - low.t) >= 0) high = low;
    low = std::move(now);
  }
  t = low.t;
  return low.point;
}

NamedTensors LBFGS::state_dict() const {
  const auto number = [](double x) { return scalar(x, {.dtype = f64}); };
  const auto rows = [&](const std::vector<Tensor>& list) {
    return list.empty() ? zeros({0, d_.numel()}, {.dtype = d_.dtype(), .device = d_.device()}) : stack(list);
  };
  const NoGrad no_grad;
  return {{"group.0.lr", number(lr())},
          {"state.0.n_iter", scalar(n_iter_, {.dtype = i64})},
          {"state.0.func_evals", scalar(func_evals_, {.dtype = i64})},
          {"state.0.t", number(t_)},
          {"state.0.H_diag", number(h_diag_)},
          {"state.0.prev_loss", number(prev_loss_)},
          {"state.0.d", d_.clone()},
          {"state.0.prev_flat_grad", prev_gradient_.clone()},
          {"state.0.old_dirs", rows(old_dirs_)},
          {"state.0.old_stps", rows(old_stps_)},
          {"state.0.ro", from_data<double>(ro_, {static_cast<std::int64_t>(ro_.size())})}};
}

void LBFGS::load_state_dict(const NamedTensors& state) {
  const auto find = [&](std::string_view name) {
    const auto found = std::ranges::find(state, name, &NamedTensors::value_type::first);
    return found == state.end() ? Tensor() : found->second;
  };
  const Tensor ro = find("state.0.ro");
  const std::int64_t kept = ro.defined() && ro.dim() == 1 ? ro.size(0) : 0;
  NamedTensors expected = state_dict();
  for (auto& [name, t] : expected) {
    if (name == "state.0.ro") t = empty({kept}, {.dtype = f64});
    if (name == "state.0.old_dirs" || name == "state.0.old_stps") t = empty({kept, d_.numel()}, {.dtype = d_.dtype()});
  }
  const std::string mismatch = io::describe_mismatch(expected, state);
  check(mismatch.empty(), "LBFGS load_state_dict: ", mismatch,
        "; was it saved by another optimizer or for another model?");
  check(kept <= options_.history_size, "LBFGS load_state_dict: the state has ", kept,
        " pairs of vectors, history_size is ", options_.history_size);
  const NoGrad no_grad;
  const auto vector = [&](const Tensor& t) {
    return empty(t.sizes(), {.dtype = d_.dtype(), .device = d_.device()}).copy_(t);
  };
  const auto list = [&](const char* name) {
    std::vector<Tensor> rows;
    for (std::int64_t i = 0; i < kept; ++i) rows.push_back(vector(find(name).select(0, i)));
    return rows;
  };
  set("lr", find("group.0.lr").item<double>());
  n_iter_ = find("state.0.n_iter").item<int>();
  func_evals_ = find("state.0.func_evals").item<int>();
  t_ = find("state.0.t").item<double>();
  h_diag_ = find("state.0.H_diag").item<double>();
  prev_loss_ = find("state.0.prev_loss").item<double>();
  d_ = vector(find("state.0.d"));
  prev_gradient_ = vector(find("state.0.prev_flat_grad"));
  old_dirs_ = list("state.0.old_dirs");
  old_stps_ = list("state.0.old_stps");
  ro_ = ro.to_vector<double>();
}

}  // namespace mantissa::optim
