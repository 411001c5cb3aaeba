// One recorded run of the doctor's step: results and gradients of every operator. Part of amp/doctor.cpp.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "amp/doctor.h"
#include "amp/observe.h"

namespace mantissa::amp::detail {

struct Event {  // one operator with a floating result
  std::string op, module;
  bool in_module = false;
  Tensor result, gradient;     // detached; the gradient may be undefined
  std::vector<int> producers;  // events that produced its inputs
  bool foreign_bad = false;    // an input from outside the step holds inf or NaN
};

struct Run {
  std::vector<Event> events;
  double loss = 0;
  std::vector<Tensor> gradients;  // of the parameters
};

bool is_bad(const Tensor& x);  // contains inf or NaN

// `half`: absent for the f32 run. Gradients are of loss * scale.
struct RunOptions {
  const Patient& patient;
  const std::function<Tensor()>& step;
  std::optional<Dtype> half;
  Policies policies;
  double scale = 1;
};
Run run_step(const RunOptions& options);

}  // namespace mantissa::amp::detail
