#include "amp/doctor.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "amp/doctor_run.h"
#include "amp/text_table.h"
#include "core/error.h"

namespace mantissa::amp {
namespace {

using detail::Event;
using detail::Run;

double largest_of(Dtype half) { return half == f16 ? 65504.0 : 3.3895313892515355e38; }
double largest_in(const Tensor& x) {
  double most = 0;
  for (const float v : x.to_vector<float>()) most = std::max(most, std::abs(static_cast<double>(v)));
  return most;
}

// The difference between a half-precision tensor and its f32 reference.
struct Difference {
  double underflow = 0, error = 0;
  bool overflows = false;
};
Difference compare(const Tensor& exact, const Tensor& half, double half_scale = 1) {
  const std::vector<float> a = exact.to_vector<float>(), b = half.to_vector<float>();
  Difference d;
  double squares = 0, off = 0;
  std::int64_t nonzero = 0, lost = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    nonzero += a[i] != 0;
    lost += a[i] != 0 && b[i] == 0;
    d.overflows = d.overflows || (std::isfinite(a[i]) && !std::isfinite(b[i]));
    const double e = static_cast<double>(b[i]) / half_scale - static_cast<double>(a[i]);
    squares += static_cast<double>(a[i]) * static_cast<double>(a[i]);
    off += e * e;
  }
  d.underflow = nonzero > 0 ? static_cast<double>(lost) / static_cast<double>(nonzero) : 0;
  d.error = squares > 0 ? std::sqrt(off / squares) : 0;
  return d;
}

std::string name_of(const Event& e) { return e.in_module ? e.module : e.op; }
std::string place_of(const Event& e) { return e.in_module ? concat(e.op, " in ", e.module) : e.op; }
const Event* first_bad(const Run& run) {
  for (const Event& e : run.events) if (detail::is_bad(e.result)) return &e;
  return nullptr;
}
bool has_bad_gradient(const Run& run) {
  return std::ranges::any_of(run.gradients, [](const Tensor& g) { return g.defined() && detail::is_bad(g); });
}

// The operators and modules suggested for f32, as they accumulate.
struct Suggestion {
  std::vector<std::string> operators;
  ModulePolicies modules;

  bool add(const std::string& name, bool is_module) {  // false: already present
    if (is_module) {
      const bool known = std::ranges::any_of(modules, [&](const auto& m) { return m.first == name; });
      if (!known) modules.emplace_back(name, CastPolicy::f32);
      return !known;
    }
    const bool known = std::ranges::find(operators, name) != operators.end();
    if (!known) operators.push_back(name);
    return !known;
  }
  std::string json() const {
    nlohmann::json json = nlohmann::json::parse(to_json(modules));
    for (const std::string& op : operators) json[op] = "f32";
    return json.dump(2);
  }
  Policies policies(const ModuleList& net, const Policies& around) const {
    Policies p = around;
    for (const std::string& op : operators) p.set(op, CastPolicy::f32);
    if (!modules.empty()) p.add(policies_for(net, modules).module_rules().front());
    return p;
  }
};

class Doctor {
 public:
  Doctor(const Patient& patient, const std::function<Tensor()>& step, const DoctorOptions& o)
      : patient_(patient), step_(step), options_(o) {}

  Diagnosis examine() {
    if (find_bad_parameter()) return result_;
    exact_ = run({}, {}, 1);
    result_.loss_f32 = exact_.loss;
    if (find_bad_forward()) return result_;
    choose_scale();
    Run half = run(options_.dtype, options_.policies, result_.initial_scale);
    check_same_path(half);
    const Event* bad = first_bad(half);
    const std::string overflow = bad ? place_of(*bad) : std::string();
    judge_layers(half);
    suggest(half);  // reruns the step: invalidates this run's events
    find_cause(overflow);
    return result_;
  }

 private:
  Run run(std::optional<Dtype> half, const Policies& policies, double scale) {
    return detail::run_step({.patient = patient_, .step = step_, .half = half, .policies = policies, .scale = scale});
  }
  void conclude(Cause cause, std::string text) {
    result_.cause = cause;
    result_.explanation = std::move(text);
  }

  bool find_bad_parameter() {
    for (const auto& [name, p] : patient_.parameters) {
      if (!detail::is_bad(p)) continue;
      conclude(Cause::parameters, concat("parameter ", name, " holds inf or NaN already"));
      return true;
    }
    return false;
  }
  bool find_bad_forward() {
    if (const Event* e = first_bad(exact_)) {
      if (e->foreign_bad)
        conclude(Cause::input, concat(place_of(*e), " receives inf or NaN from outside the step: look at the batch"));
      else
        conclude(Cause::forward_f32,
                 concat(place_of(*e), " gives inf or NaN in f32 too: not a matter of precision or of the scale"));
      return true;
    }
    if (!has_bad_gradient(exact_)) return false;
    conclude(Cause::backward_f32, "gradients are inf or NaN in f32 too: not a matter of precision or of the scale");
    return true;
  }

  // A power of two that keeps the largest gradient a factor of 8 below the dtype's maximum.
  void choose_scale() {
    if (options_.dtype != f16) return;
    double most = 0;
    for (const Event& e : exact_.events) if (e.gradient.defined()) most = std::max(most, largest_in(e.gradient));
    for (const Tensor& g : exact_.gradients) if (g.defined()) most = std::max(most, largest_in(g));
    if (most == 0) return;
    const double room = std::floor(std::log2(largest_of(f16) / 8 / most));
    result_.initial_scale = std::exp2(std::clamp(room, -14.0, 24.0));
  }

  void check_same_path(const Run& half) const {
    for (std::size_t i = 0; i < std::max(exact_.events.size(), half.events.size()); ++i) {
      const bool same = i < exact_.events.size() && i < half.events.size() && exact_.events[i].op == half.events[i].op;
      check(same, "doctor: two runs of the step took different paths at operator ", static_cast<std::int64_t>(i),
            "; it must compute the same each time");
    }
  }

  LayerHealth judge(std::size_t i, const Run& half, const std::vector<double>& errors, double error,
                    const Difference& d) const {
    const Event &exact = exact_.events[i], &low = half.events[i];
    LayerHealth h{.name = name_of(exact), .is_module = exact.in_module, .worst_operator = exact.op};
    h.underflow = d.underflow;
    h.overflows = d.overflows;
    h.largest = largest_in(exact.result);
    h.headroom = h.largest > 0 ? largest_of(options_.dtype) / h.largest : largest_of(options_.dtype);
    h.error = error;
    double before = 0;
    for (const int p : exact.producers) before = std::max(before, errors[static_cast<std::size_t>(p)]);
    h.added_error = std::isfinite(error) ? std::max(0.0, error - before) : 0;
    if (exact.gradient.defined()) {
      h.gradient_largest = largest_in(exact.gradient);
      if (low.gradient.defined())
        h.gradient_underflow = compare(exact.gradient, low.gradient, result_.initial_scale).underflow;
    }
    return h;
  }
  static void merge(LayerHealth& into, const LayerHealth& h) {
    if (h.severity() > into.severity()) into.worst_operator = h.worst_operator;
    into.overflows = into.overflows || h.overflows;
    into.headroom = std::min(into.headroom, h.headroom);
    for (double LayerHealth::*field :
         {&LayerHealth::underflow, &LayerHealth::largest, &LayerHealth::error, &LayerHealth::added_error,
          &LayerHealth::gradient_largest, &LayerHealth::gradient_underflow}) {
      into.*field = std::max(into.*field, h.*field);
    }
  }
  void judge_layers(const Run& half) {
    std::vector<double> errors;
    std::vector<LayerHealth>& layers = result_.layers;
    for (std::size_t i = 0; i < exact_.events.size(); ++i) {
      const Difference d = compare(exact_.events[i].result, half.events[i].result);
      errors.push_back(d.error);
      // An overflow caused by inputs that already overflowed is not attributed to this operator.
      bool upstream = false;
      for (const int p : exact_.events[i].producers)
        upstream = upstream || detail::is_bad(half.events[static_cast<std::size_t>(p)].result);
      LayerHealth h = judge(i, half, errors, d.error, d);
      h.overflows = h.overflows && !upstream;
      const auto at = std::ranges::find_if(
          layers, [&](const LayerHealth& l) { return l.name == h.name && l.is_module == h.is_module; });
      if (at == layers.end()) layers.push_back(h);
      else merge(*at, h);
    }
    std::ranges::stable_sort(layers, std::greater<>(), &LayerHealth::severity);
  }

  // Adds layers until the half-precision forward is finite, then those with too much underflow or error.
  void suggest(Run& half) {
    Suggestion s;
    Policies policies = options_.policies;
    for (const Event* bad = first_bad(half); bad; bad = first_bad(half)) {
      // An inf may come from casting an input that is too large for the dtype: then the operator that reads it stays in
      // f32.
      if (!s.add(name_of(*bad), bad->in_module) && !s.add(bad->op, false)) break;
      policies = s.policies(patient_.modules, options_.policies);
      half = run(options_.dtype, policies, result_.initial_scale);
    }
    bool more = false;
    for (const LayerHealth& h : result_.layers) {
      if (h.underflow > options_.max_underflow || h.added_error > options_.max_error)
        more = s.add(h.name, h.is_module) || more;
    }
    if (more) {
      policies = s.policies(patient_.modules, options_.policies);
      half = run(options_.dtype, policies, result_.initial_scale);
    }
    for (int halvings = 0; halvings < 24 && options_.dtype == f16 && !first_bad(half) && has_bad_gradient(half);
         ++halvings) {
      result_.initial_scale /= 2;
      half = run(options_.dtype, policies, result_.initial_scale);
    }
    result_.loss_half = half.loss;
    result_.overlay = s.json();
    result_.policies = policies;
  }

  void find_cause(const std::string& overflow) {
    if (!overflow.empty()) {
      return conclude(Cause::forward_half,
                      concat(overflow, " overflows ", options_.dtype,
                             " in the forward: a lower scale does not help, f32 for the layers of the overlay does"));
    }
    if (options_.dtype == f16 && has_bad_gradient(run(options_.dtype, result_.policies, options_.scale))) {
      return conclude(Cause::scale, concat("the forward is sound; gradients overflow f16 at a scale of ",
                                           options_.scale, " and not at ", result_.initial_scale));
    }
    conclude(Cause::none, concat("forward and backward are finite in ", options_.dtype,
                                 options_.dtype == f16 ? concat(" at a scale of ", options_.scale) : std::string()));
  }

  const Patient& patient_;
  const std::function<Tensor()>& step_;
  const DoctorOptions& options_;
  Run exact_;
  Diagnosis result_;
};

std::string percent(double share) { return concat(std::round(share * 1e4) / 100, " %"); }

}  // namespace

double LayerHealth::severity() const {
  const double tight = headroom > 0 ? 1 / headroom : 0;  // 1: no headroom left
  return (overflows ? 1e6 : 0) + 100 * underflow + 100 * added_error + 10 * gradient_underflow + tight;
}

std::string Diagnosis::report() const {
  std::string text = concat(explanation, "\n");
  if (layers.empty()) return text;
  text += concat("initial scale ", initial_scale, ", loss ", loss_f32, " in f32, ", loss_half, " with the overlay\n",
                 overlay, "\n");
  std::vector<std::vector<std::string>> rows{
      {"layer", "operator", "underflow", "largest", "headroom", "error", "added", "gradient", "lost"}};
  for (const LayerHealth& h : layers) {
    rows.push_back({h.name, h.worst_operator, percent(h.underflow), concat(h.largest),
                    h.overflows ? std::string("OVERFLOW") : concat(h.headroom), percent(h.error),
                    percent(h.added_error), concat(h.gradient_largest), percent(h.gradient_underflow)});
  }
  return text + text_table(rows);
}

Diagnosis diagnose(const Patient& patient, const std::function<Tensor()>& step, const DoctorOptions& o) {
  check(is_half(o.dtype), "doctor: the dtype must be f16 or bf16, got ", o.dtype);
  check(o.scale > 0 && std::isfinite(o.scale), "doctor: the scale must be positive and finite, got ", o.scale);
  return Doctor(patient, step, o).examine();
}

}  // namespace mantissa::amp
