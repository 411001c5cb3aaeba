// The precision doctor: runs a step in f32 and in half precision side by side and says where they part, which layers
// should stay in f32, what the loss scale should start at, and whether a NaN is a matter of precision at all.
//
//   const amp::Diagnosis d = amp::doctor(net, [&] { return cross_entropy(net(x), y); }, {.dtype = f16});   // nn/amp.h
//   std::puts(d.report().c_str());
//   amp::Policies p = amp::policies_from_json(net, d.overlay);
//   amp::GradScaler scaler({.init_scale = d.initial_scale});
//
// The step is a function without a region of its own that gives a scalar loss. It runs a few times, with the same
// random numbers; parameters, gradients, buffers and the generator are afterwards as they were. An operator belongs
// to the module that amp/modules.h finds, or stands for itself.
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
  double scale = 65536;         // of the loss, as the scaler has it now; not used in bf16
  Policies policies = {};       // of the region
  double max_underflow = 0.01;  // share of a layer's results that may be lost to 0 before f32 is suggested
  double max_error = 0.05;      // relative error that a layer may add, in the l2 norm
};

struct LayerHealth {
  std::string name;            // the module's path, or the operator's name when it belongs to none
  bool is_module = false;
  std::string worst_operator;  // of the layer
  double underflow = 0;        // share of the results not 0 in f32 that are 0 in half precision
  double largest = 0;          // |result| in f32
  double headroom = 0;         // the largest number of the dtype / largest: below 1 it overflows
  double error = 0;            // |half - f32| / |f32| of the results, l2 norms,
  double added_error = 0;      // and what this layer adds to its inputs' error
  double gradient_largest = 0;    // of the results' gradients, in f32, unscaled
  double gradient_underflow = 0;  // share of them lost to 0 at the suggested scale
  bool overflows = false;      // finite in f32, inf or NaN in half precision

  double severity() const;  // what layers are ranked by
};

enum class Cause {
  none,          // the step is sound at the given scale
  parameters,    // a parameter holds NaN or inf
  input,         // what comes into the step does
  forward_f32,   // an operator makes NaN or inf of finite numbers in f32 as well: not a matter of precision
  forward_half,  // an operator overflows in half precision: the overlay helps, a lower scale does not
  backward_f32,  // a gradient is NaN or inf in f32 as well
  scale,         // the forward is sound; gradients overflow at the given scale: a lower one helps
};

struct Diagnosis {
  Cause cause = Cause::none;
  std::string explanation;          // one sentence that names the parameter or operator
  std::vector<LayerHealth> layers;  // worst first
  std::string overlay;              // JSON for policies_from_json: what should stay in f32
  Policies policies;                // the same, ready to use
  double initial_scale = 1;         // a power of two that leaves gradients a factor of 8; 1 in bf16
  double loss_f32 = 0, loss_half = 0;  // the latter with the overlay

  std::string report() const;  // explanation, scale, overlay and a table of layers
};

// What doctor() in nn/amp.h calls.
struct Patient {
  ModuleList modules;
  std::vector<std::pair<std::string, Tensor>> parameters, buffers;
};
Diagnosis diagnose(const Patient& patient, const std::function<Tensor()>& step, const DoctorOptions& options);

}  // namespace mantissa::amp
