// The precision doctor: runs a step in f32 and in half precision side by side and reports where they diverge, which
// layers should stay in f32, the initial loss scale, and whether a NaN is caused by precision at all.
//
//   const amp::Diagnosis d = amp::doctor(net, [&] { return cross_entropy(net(x), y); }, {.dtype = f16});   // nn/amp.h
//   std::puts(d.report().c_str());
//   amp::Policies p = amp::policies_from_json(net, d.overlay);
//   amp::GradScaler scaler({.init_scale = d.initial_scale});
//
// The step is a function that enters no autocast region and returns a scalar loss. It runs a few times, with the same
// random numbers; parameters, gradients, buffers and the generator are restored afterwards. Operators are attributed to
// modules as in amp/modules.h; those without a module are listed by themselves.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "amp/module_rules.h"
#include "core/tensor.h"

namespace mantissa::amp {

struct DoctorOptions {
  Dtype dtype = f16;
  double scale = 65536;         // the scaler's current loss scale; not used in bf16
  Policies policies = {};       // of the region
  double max_underflow = 0.01;  // fraction of a layer's results that may underflow to 0 before f32 is suggested
  double max_error = 0.05;      // relative error that a layer may add, in the L2 norm
};

struct LayerHealth {
  std::string name;            // the module's path, or the operator's name if it belongs to no module
  bool is_module = false;
  std::string worst_operator;  // of the layer
  double underflow = 0;        // fraction of results that are nonzero in f32 but 0 in half precision
  double largest = 0;          // max |result| in f32
  double headroom = 0;         // the dtype's maximum / largest: below 1 it overflows
  double error = 0;            // |half - f32| / |f32| of the results, L2 norms
  double added_error = 0;      // the part of it that this layer adds to its inputs' error
  double gradient_largest = 0;    // max |gradient| of the results, in f32, unscaled
  double gradient_underflow = 0;  // fraction of them lost to 0 at the suggested scale
  bool overflows = false;      // finite in f32, inf or NaN in half precision

  double severity() const;  // ranking key of layers
};

enum class Cause {
  none,          // the step is finite at the given scale
  parameters,    // a parameter holds NaN or inf
  input,         // an input of the step holds NaN or inf
  forward_f32,   // an operator yields NaN or inf from finite inputs in f32 too: not a precision problem
  forward_half,  // an operator overflows in half precision: the overlay helps, a lower scale does not
  backward_f32,  // a gradient is NaN or inf in f32 as well
  scale,         // the forward is finite; gradients overflow at the given scale: a lower one helps
};

struct Diagnosis {
  Cause cause = Cause::none;
  std::string explanation;          // one sentence that names the parameter or operator
  std::vector<LayerHealth> layers;  // worst first
  std::string overlay;              // JSON for policies_from_json: which operators and modules should stay in f32
  Policies policies;                // the same, ready to use
  double initial_scale = 1;         // a power of two that leaves gradients a headroom of 8; 1 in bf16
  double loss_f32 = 0, loss_half = 0;  // the latter with the overlay

  std::string report() const;  // explanation, scale, overlay and a table of layers
};

// Argument of the implementation; use doctor() in nn/amp.h.
struct Patient {
  ModuleList modules;
  std::vector<std::pair<std::string, Tensor>> parameters, buffers;
};
Diagnosis diagnose(const Patient& patient, const std::function<Tensor()>& step, const DoctorOptions& options);

}  // namespace mantissa::amp
