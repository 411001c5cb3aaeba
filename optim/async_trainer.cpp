#include "optim/async_trainer.h"

#include <algorithm>
#include <mutex>

#include "autograd/backward.h"
#include "autograd/hooks.h"
#include "autograd/node.h"
#include "core/ops.h"
#include "io/checkpoint.h"
#include "optim/master.h"

namespace mantissa::optim {

using autograd::leaf_of;

namespace {

void drop_gradient(Tensor& parameter) {
  if (parameter.requires_grad()) parameter.set_grad({});  // a frozen parameter has no gradient
}

}  // namespace

AsyncTrainer::AsyncTrainer(const Parameters& model, const AsyncTrainerOptions& options)
    : options_(options), names_(model.names) {
  check(!model.tensors.empty(), "AsyncTrainer: needs at least one parameter");
  check(options.micro_batches >= 1, "AsyncTrainer: micro_batches must be at least 1, got ", options.micro_batches);
  for (std::size_t i = 0; i < model.tensors.size(); ++i) {
    const Tensor& p = model.tensors[i];
    const auto name = [&] { return parameter_label(names_[i], i); };
    check(p.defined() && p.is_floating() && p.requires_grad() && p.is_leaf(), "AsyncTrainer: ", name(), " is ", p,
          "; parameters are floating leaves that require a gradient");
    Pair pair{.model = p, .master = make_master(p).requires_grad_(), .version = p.storage()->version()};
    leaf_of(p)->set_dtype(pair.master.dtype(), p.device());  // dtype in which gradients are accumulated
    pairs_.push_back(std::move(pair));
  }
}

Parameters AsyncTrainer::optim_parameters() const {
  NamedTensors named;
  for (std::size_t i = 0; i < pairs_.size(); ++i) named.emplace_back(names_[i], pairs_[i].master);
  return named;
}

Tensor AsyncTrainer::part(const Tensor& t, std::int64_t from, std::int64_t to) { return t.slice(0, from, to); }
std::vector<Tensor> AsyncTrainer::part(const std::vector<Tensor>& t, std::int64_t from, std::int64_t to) {
  std::vector<Tensor> parts;
  for (const Tensor& x : t) parts.push_back(part(x, from, to));
  return parts;
}

int AsyncTrainer::begin(std::span<const Tensor> inputs, std::span<const Tensor> labels) {
  background_.rethrow();
  check(!inputs.empty() && inputs[0].defined() && inputs[0].dim() > 0 && inputs[0].size(0) > 0,
        "AsyncTrainer.forward_backward: inputs must have rows along dimension 0");
  const std::int64_t rows = inputs[0].size(0);
  for (const auto& list : {inputs, labels}) {
    for (const Tensor& t : list) {
      check(t.defined() && t.dim() > 0 && t.size(0) == rows,
            "AsyncTrainer.forward_backward: inputs and labels need the same number of rows, got ", inputs[0], " and ",
            t);
    }
  }
  if (options_.scaler && !pin_) pin_ = options_.scaler->pin(inputs[0].device());
  for (const Pair& p : pairs_)  // accumulate gradients in the master's dtype; an unfrozen parameter has a new node
    if (auto* leaf = leaf_of(p.model)) leaf->set_dtype(p.master.dtype(), p.model.device());
  return static_cast<int>(std::min<std::int64_t>(options_.micro_batches, rows));
}

void AsyncTrainer::add_part(const Tensor& loss, double share, Tensor& total) {
  check(loss.defined() && loss.numel() == 1 && loss.is_floating(),
        "AsyncTrainer.forward_backward: loss_fn must return a loss of one element, got ", loss);
  const Tensor counted = options_.loss == LossOf::sum || share == 1 ? loss : loss * share;
  backward(options_.scaler ? options_.scaler->scale(counted, *pin_) : counted);
  const NoGrad no_grad;
  const Tensor value = counted.detach().to(compute_dtype(loss.dtype()));
  total = total.defined() ? total + value : value.clone();
}

void AsyncTrainer::publish() {
  const NoGrad no_grad;
  for (Pair& p : pairs_) {
    p.model.copy_(p.master.detach());
    p.version = p.model.storage()->version();
  }
}

void AsyncTrainer::listen() {
  const NoGrad no_grad;
  for (Pair& p : pairs_) {
    if (p.model.storage()->version() == p.version) continue;
    follow(p.master, p.model);
    p.version = p.model.storage()->version();
  }
}

void AsyncTrainer::hand_over() {
  const NoGrad no_grad;
  for (Pair& p : pairs_) {
    if (!p.model.requires_grad() || !p.master.requires_grad()) {  // frozen in the meantime
      drop_gradient(p.model);
      drop_gradient(p.master);
      continue;
    }
    autograd::LeafNode &from = *leaf_of(p.model), &to = *leaf_of(p.master);
    const std::scoped_lock lock(from.mutex, to.mutex);
    to.grad = std::exchange(from.grad, {});
    autograd::GradientTags& tags = to.hooks().tags;
    tags = from.has_hooks() ? std::exchange(from.hooks().tags, {}) : autograd::GradientTags{};
    if (!to.grad.defined() || to.grad.dtype() == p.master.dtype()) continue;
    const bool as_noted = tags.version == to.grad.storage()->version();
    to.grad = to.grad.to(p.master.dtype());
    if (as_noted) tags.version = to.grad.storage()->version();
    else tags = {};
  }
}

void AsyncTrainer::settle() {
  if (!std::exchange(under_way_, false)) return background_.rethrow();
  const auto written =
      std::ranges::find_if(pairs_, [](const Pair& p) { return p.model.storage()->version() != p.version; });
  const auto i = static_cast<std::size_t>(written - pairs_.begin());
  try {
    background_.wait();
  } catch (...) {
    publish();
    throw;
  }
  publish();
  if (i == pairs_.size()) return;
  fail(
      "AsyncTrainer: ", parameter_label(names_[i], i),
      " was written to while an asynchronous step was under way; the step's result has replaced it. Call synchronize() "
      "before you write to parameters");
}

void AsyncTrainer::step(std::function<void()> step_fn, bool async) {
  check(static_cast<bool>(step_fn), "AsyncTrainer.step: there is no step function");
  check(!async || !options_.scaler || !options_.scaler->options().check_loss,
        "AsyncTrainer.step: a scaler with check_loss needs synchronous steps");
  settle();
  listen();
  hand_over();
  pin_ = {};
  if (async && options_.scaler && options_.scaler->is_enabled()) pin_ = options_.scaler->pin(pairs_[0].model.device());
  under_way_ = true;
  background_.start([this, step_fn = std::move(step_fn)] {
    struct Drop {  // also if step_fn throws
      std::vector<Pair>& pairs;
      ~Drop() { for (Pair& p : pairs) drop_gradient(p.master); }
    } drop{pairs_};
    try {
      step_fn();
    } catch (...) {
      if (options_.scaler) options_.scaler->discard();  // of the iteration it may have begun
      throw;
    }
  });
  if (!async) settle();
}

void AsyncTrainer::synchronize() {
  pin_ = {};
  settle();
}

NamedTensors AsyncTrainer::own_state() const {
  NamedTensors state;
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    state.emplace_back("master." + (names_[i].empty() ? std::to_string(i) : names_[i]), pairs_[i].master.detach());
  }
  return state;
}
NamedTensors AsyncTrainer::state_dict() {
  synchronize();
  listen();
  NamedTensors state = own_state();
  for (auto& [name, t] : state) t = t.clone();
  return state;
}
void AsyncTrainer::load_state_dict(const NamedTensors& state) {
  synchronize();
  const NoGrad no_grad;
  NamedTensors own = own_state();
  const std::string mismatch = io::describe_mismatch(own, state);
  check(mismatch.empty(), "AsyncTrainer load_state_dict: ", mismatch);
  for (auto& [name, t] : own) t.copy_(std::ranges::find(state, name, &NamedTensors::value_type::first)->second);
  publish();
}

}  // namespace mantissa::optim
