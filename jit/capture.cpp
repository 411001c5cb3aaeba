#include "jit/capture.h"

#include <algorithm>
#include <cstdio>
#include <list>

#include "amp/shadow_pins.h"
#include "autograd/grad_mode.h"
#include "core/accelerator.h"
#include "core/flops.h"
#include "core/memory_order.h"
#include "core/module_modes.h"
#include "core/profile.h"
#include "core/random.h"
#include "core/recorded_memory.h"
#include "core/recorded_writes.h"
#include "core/tf32.h"
#include "jit/captured_backward.h"
#include "jit/step_gradients.h"

namespace mantissa::jit {
namespace {

constexpr std::size_t most_recordings = 4;
thread_local bool is_recording = false;

// What the host code of a step may depend on besides its inputs, as far as it is known.
struct Modes {
  Context thread = context();
  std::uint64_t modules = modes_of_modules();
  bool tf32 = is_tf32_allowed();

  bool are_same_now() const {
    const Context& now = context();
    return thread.grad_enabled == now.grad_enabled && thread.inference == now.inference &&
           thread.create_graph == now.create_graph && thread.anomaly == now.anomaly &&
           thread.autocast == now.autocast && modules == modes_of_modules() && tf32 == is_tf32_allowed();
  }
};

// The step for given input shapes, modes and gradients: not yet recorded, or ready for replay.
struct Recording {
  std::vector<Tensor> inputs;   // the graph's input buffers: our own copies
  std::vector<Tensor> results;  // the graph's output buffers
  Modes modes;
  StepGradients gradients;
  GraphHandle graph;
  std::shared_ptr<CapturedBackward> backward;  // if results require a gradient
  std::uint64_t random_numbers = 0;  // random counters that one run of the step reserves
  double flops = 0;
  amp::ShadowPins pins;  // copies of weights in other dtypes that the graph reads or updates
  std::unique_ptr<RecordedWrites> writes;
};

bool fits(const Recording& r, const std::vector<Tensor>& inputs) {
  if (r.inputs.size() != inputs.size() || !r.modes.are_same_now() || !r.gradients.are_as_found()) return false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor &a = r.inputs[i], &b = inputs[i];
    if (a.sizes() != b.sizes() || a.dtype() != b.dtype() || a.device() != b.device()) return false;
    if (a.requires_grad() != b.requires_grad()) return false;
  }
  return true;
}

// What a replay has to copy to its inputs. What lies in memory in another order than these is copied now.
std::vector<cuda_backend::GraphInput> copies_to(const Recording& r, std::vector<Tensor>& inputs) {
  const NoGrad no_grad;
  const auto is_there = [&](std::size_t i) {
    return inputs[i].raw_data() == r.inputs[i].raw_data() && inputs[i].strides() == r.inputs[i].strides();
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {  // a step may return its inputs, in another order, for a next call
    const auto is_of = [&](const Tensor& own) { return own.storage() == inputs[i].storage(); };
    if (std::ranges::any_of(r.inputs, is_of) && !is_there(i)) inputs[i] = inputs[i].clone();
  }
  std::vector<cuda_backend::GraphInput> copies;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Tensor to = r.inputs[i];
    const Tensor& from = inputs[i];
    if (to.numel() == 0 || is_there(i)) continue;
    if (is_dense(from) && from.layout() == to.layout()) {
      copies.push_back({to.raw_data(), from.raw_data(), static_cast<std::size_t>(to.nbytes())});
      to.storage()->written_by("the next call of a captured step");
    } else {
      to.copy_(from);
    }
  }
  return copies;
}

// Records the step without running it; the random counters reserved are those of the first replay.
RngState record(Recording& r, const CapturedStep::Step& step) {
  r.graph.reset(cuda_backend::make_graph());
  r.writes = std::make_unique<RecordedWrites>();
  const FlopCounter flops;
  const RngState start = rng_state();
  is_recording = true;
  const std::uint64_t first_node = autograd::Node::next_id();
  try {
    const amp::ShadowPins::Recording pinning(r.pins);
    const StepGradients::Watch watch(r.gradients);
    const RecordedWrites::Recording writing(*r.writes);
    cuda_backend::begin_recording(r.graph.get(), start.seed, start.offset);
    r.results = step(r.inputs);
    const RngState end = rng_state();
    check(end.seed == start.seed && end.offset >= start.offset,
          "a step that is captured cannot set the random numbers (manual_seed, set_rng_state), since every run of it "
          "goes on in those of the one before; set them outside of the step");
    for (const Tensor& x : r.inputs) {
      check(!x.requires_grad() || !autograd::leaf_of(x)->grad.defined(),
            "a captured step: backward() within it gives a gradient to its input ", x,
            ", which the caller's tensor would not get; use grad() within the step, call backward() outside of it, or "
            "pass x.detach()");
    }
    cuda_backend::end_recording(r.graph.get());
    r.pins.note_recorded();
    r.gradients.keep_left();
    if (std::ranges::any_of(r.results, [](const Tensor& y) { return y.requires_grad(); }))
      r.backward = std::make_shared<CapturedBackward>(r.results, r.inputs, first_node, start);
  } catch (...) {
    is_recording = false;
    cuda_backend::give_up_recording(r.graph.get());
    r.results.clear();
    r.pins.give_up();
    r.graph.reset();  // the next call records again
    throw;
  }
  is_recording = false;
  r.random_numbers = rng_state().offset - start.offset;
  r.flops = flops.count();
  return start;
}

// A captured step pays if most of its calls are replays.
constexpr std::int64_t many_calls = 20;
void warn_of_few_replays(std::int64_t replays, std::int64_t recordings) {
  std::fprintf(stderr,
               "mantissa: of %lld calls of a step given to jit::capture %lld were replays (recordings: %lld), because "
               "memory that it uses is freed between its calls, or its inputs' shapes, the gradients that it finds or "
               "the modes (autocast, NoGrad, train, eval) differ in each; jit/capture.h lists what is recorded "
               "separately\n",
               static_cast<long long>(replays + many_calls), static_cast<long long>(replays),
               static_cast<long long>(recordings));
}

}  // namespace

struct CapturedStep::Impl {
  Step step;
  std::list<Recording> recordings;  // most recently used first
  std::int64_t replays = 0, made = 0, others = 0;

  void note_other_call() {
    if (++others == many_calls && replays < many_calls) warn_of_few_replays(replays, made);
  }
};

CapturedStep::CapturedStep(Step step) : impl_(std::make_shared<Impl>()) { impl_->step = std::move(step); }

std::vector<Tensor> CapturedStep::run(std::vector<Tensor> inputs) {
  Device device = cpu;
  const Tensor* on_device = nullptr;
  bool on_host = false;
  for (const Tensor& x : inputs) {
    check(x.defined(), "a captured step was called with an undefined tensor");
    if (x.device().is_cpu()) {
      on_host = true;
      continue;
    }
    device = x.device();
    on_device = &x;
  }
  // A recording would repeat what it read on the host. Inside a step being recorded it becomes part of that recording.
  if (device.is_cpu() || on_host || is_recording) return impl_->step(inputs);
  cuda_backend::activate(device);

  std::list<Recording>& all = impl_->recordings;
  all.remove_if([](const Recording& r) { return r.graph && cuda_backend::is_outdated(r.graph.get()); });
  for (auto r = all.begin(); r != all.end(); ++r) {
    if (!fits(*r, inputs)) continue;
    all.splice(all.begin(), all, r);
    const ProfileRange range(ProfileKind::library, r->graph ? "captured step: replay" : "captured step: record",
                             on_device);
    std::vector<autograd::NodeRef> nodes;
    for (const Tensor& x : inputs) nodes.push_back(x.impl()->node);
    const std::vector<cuda_backend::GraphInput> copies = copies_to(*r, inputs);
    RngState at;
    const bool replays = r->graph != nullptr;
    if (!replays) {
      at = record(*r, impl_->step);
      ++impl_->made;
      impl_->note_other_call();
    } else {
      at = reserve_random(r->random_numbers);
      ++impl_->replays;
    }
    const CountedFlops counted(replays ? r->flops : 0);
    r->pins.refresh();
    cuda_backend::replay(r->graph.get(), copies, at.seed, at.offset);
    if (replays) r->writes->announce();
    r->pins.note_replay();
    if (replays) r->gradients.put_back();
    return r->backward ? CapturedBackward::attach(r->backward, r->results, nodes, at) : r->results;
  }
  // First call: runs normally, so that lazily created state (optimizer state, tuned kernels) exists.
  Recording first;
  for (const Tensor& x : inputs) first.inputs.push_back(empty_like(x.detach()).requires_grad_(x.requires_grad()));
  std::vector<Tensor> results;
  {
    const StepGradients::Watch watch(first.gradients);
    results = impl_->step(inputs);
  }
  impl_->note_other_call();
  all.push_front(std::move(first));
  if (all.size() > most_recordings) all.pop_back();
  return results;
}

void CapturedStep::reset() { impl_->recordings.clear(); }
std::int64_t CapturedStep::replays() const { return impl_->replays; }
std::int64_t CapturedStep::recordings() const { return impl_->made; }
std::size_t CapturedStep::bytes() const {
  std::size_t n = 0;
  for (const Recording& r : impl_->recordings) {
    n += r.graph ? cuda_backend::graph_bytes(r.graph.get()) : 0;
    n += r.backward ? r.backward->bytes() : 0;
  }
  return n;
}

}  // namespace mantissa::jit
