// One run of the doctor's step with everything it shows noted down: results and gradients of every operator. Part of
// amp/doctor.cpp.
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
  Tensor result, gradient;     // without graph; the gradient may be undefined
  std::vector<int> producers;  // events that its inputs came from
  bool foreign_bad = false;    // an input from outside the step holds inf or NaN
};

struct Run {
  std::vector<Event> events;
  double loss = 0;
  std::vector<Tensor> gradients;  // of the parameters
};

bool is_bad(const Tensor& x);  // holds inf or NaN

// `half`: absent for the run in f32. Gradients are of loss * scale.
struct RunOptions {
  const Patient& patient;
  const std::function<Tensor()>& step;
  std::optional<Dtype> half;
  Policies policies;
  double scale = 1;
};
Run run_step(const RunOptions& options);

}  // namespace mantissa::amp::detail
