// Averages of parameters over executed steps: Ema, exponential, and Swa, the plain mean (stochastic weight averaging,
// Izmailov et al., 2018; its schedule is SWALR). Kept in the parameter's compute dtype (f32 for f16 and bf16), with the
// values of torch.optim.swa_utils.AveragedModel. With batch norms, recompute their statistics for the averaged weights
// before use (nn/update_bn.h).
//
//   optim::Ema ema(nn::parameters(net), {.decay = 0.999});
//   ema.update(scaler.step(opt));    // a skipped step leaves the averages unchanged, without synchronisation
//   { const auto scope = ema.applied(); evaluate(net); }
#pragma once

#include "optim/optimizer.h"

namespace mantissa::optim {

class WeightAverage {
 public:
  const Tensor& average(std::size_t i) const { return averages_[i]; }
  std::size_t size() const { return averages_.size(); }

  // While it exists the parameters hold the averages.
  class [[nodiscard]] Applied {
   public:
    explicit Applied(const WeightAverage& average);
    ~Applied();
    Applied(const Applied&) = delete;
    Applied& operator=(const Applied&) = delete;

   private:
    const WeightAverage& average_;
    std::vector<Tensor> own_;  // the parameters' original values
  };
  Applied applied() const { return Applied(*this); }

  std::int64_t updates() const;     // executed updates; reads the device
  NamedTensors state_dict() const;  // "updates" and "average.0", ..., as copies
  void load_state_dict(const NamedTensors& state);

 protected:
  // decay: below 0 for the plain mean.
  WeightAverage(const char* name, Parameters parameters, double decay);
  void update_all(const amp::StepResult& result);

 private:
  struct Group {  // the parameters on one device, which one kernel updates
    Tensor hyper, steps;  // of optim_formulas::WeightAverage: f64[1], i64[parameters]
    std::vector<std::size_t> members;
  };
  NamedTensors own_state() const;

  const char* name_;
  std::vector<Tensor> parameters_, averages_;
  std::vector<Group> groups_;
};

struct EmaOptions {
  double decay = 0.999;  // in [0, 1)
};
// average = decay * average + (1 - decay) * parameter. The first update copies the parameters, as AveragedModel does,
// so initial (often random) values carry no weight. Before it: the values at construction.
class Ema : public WeightAverage {
 public:
  explicit Ema(Parameters parameters, const EmaOptions& options = {});
  void update() { update(amp::StepResult()); }
  void update(const amp::StepResult& result) { update_all(result); }
};

// The mean of the parameters at all updates so far; before the first, the values at construction.
class Swa : public WeightAverage {
 public:
  explicit Swa(Parameters parameters) : WeightAverage("Swa", std::move(parameters), -1) {}
  void update() { update(amp::StepResult()); }
  void update(const amp::StepResult& result) { update_all(result); }
};

}  // namespace mantissa::optim
