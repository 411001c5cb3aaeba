#include "amp/doctor_run.h"

#include <cmath>

#include "amp/autocast.h"
#include "autograd/backward.h"
#include "autograd/hooks.h"
#include "core/ops.h"
#include "core/random.h"

namespace mantissa::amp::detail {
namespace {

class Notes final : public Observer {
 public:
  explicit Notes(bool in_f32) : Observer(true), in_f32_(in_f32) {}
  std::vector<Event> events() const { return *events_; }

 private:
  void begin(const OperatorCall& call) override {
    const AutocastState& state = context().autocast;
    check(!in_f32_ || (!state.enabled[0] && !state.enabled[1]),
          "doctor: the step enters a region itself; give it without the region");
    open_ = Event();
    open_.op = call.op;
    open_.in_module = call.module && !call.module->path.empty();
    if (open_.in_module) open_.module = call.module->path;
    for (const Tensor* t : call.inputs) {
      if (!t->defined() || !t->is_floating() || t->is_weak_scalar()) continue;
      if (const auto at = made_by_.find(t->storage().get()); at != made_by_.end())
        open_.producers.push_back(at->second);
      else open_.foreign_bad = open_.foreign_bad || is_bad(*t);
    }
  }
  void end(const Tensor& result) override {
    if (!result.defined() || !result.is_floating()) return;
    const int number = static_cast<int>(events_->size());
    made_by_[result.storage().get()] = number;
    open_.result = result.detach();
    events_->push_back(std::move(open_));
    if (!result.requires_grad() || result.is_leaf()) return;
    result.on_grad([events = events_, number](const Tensor& g) {
      (*events)[static_cast<std::size_t>(number)].gradient = g.detach();
    });
  }

  bool in_f32_;
  Event open_;
  std::shared_ptr<std::vector<Event>> events_ = std::make_shared<std::vector<Event>>();  // hooks outlive this
  std::unordered_map<const Storage*, int> made_by_;  // by storage: views share their base's
};

// Restores what a step changes, except gradients, which are never touched.
class Restore {
 public:
  explicit Restore(const Patient& patient) : patient_(patient), random_(rng_state()), scope_(random_) {
    for (const auto& [name, b] : patient.buffers) copies_.push_back(b.detach().clone());
  }
  ~Restore() {
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      Tensor target = patient_.buffers[i].second;
      target.copy_(copies_[i]);
    }
  }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;

 private:
  const Patient& patient_;
  RngState random_;  // a copy of the default generator's state
  RandomScope scope_;
  std::vector<Tensor> copies_;
};

}  // namespace

bool is_bad(const Tensor& x) {
  for (const float v : x.to_vector<float>()) if (!std::isfinite(v)) return true;
  return false;
}

Run run_step(const RunOptions& o) {
  const Restore after(o.patient);
  Policies policies = policies_for(o.patient.modules, {});  // makes modules known to observers
  for (const auto& [op, policy] : o.policies.entries()) policies.set(op, policy);
  for (const ModuleRules* rules : o.policies.module_rules()) policies.add(rules);
  Notes notes(!o.half);
  Run run;
  Tensor loss;
  {
    const Autocast region(
        AutocastOptions{.dtype = o.half, .enabled = o.half.has_value(), .policies = policies, .cache = CastCache::off});
    loss = o.step();
  }
  check(loss.defined() && loss.numel() == 1, "doctor: the step must give a scalar loss, got ", loss);
  check(loss.requires_grad(), "doctor: the loss needs no gradient; do not run the step under NoGrad");
  run.loss = loss.item<double>();
  std::vector<Tensor> inputs;
  for (const auto& [name, p] : o.patient.parameters) if (p.requires_grad()) inputs.push_back(p);
  const Tensor seed = full(loss.sizes(), o.scale, {.dtype = loss.dtype(), .device = loss.device()});
  run.gradients = grad(std::span(&loss, 1), inputs, std::span(&seed, 1), {.allow_unused = true});
  run.events = notes.events();
  return run;
}

}  // namespace mantissa::amp::detail
