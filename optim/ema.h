// An exponential moving average of parameters: average = decay * average + (1 - decay) * parameter,
// after every executed step. Averages are kept in the parameter's compute dtype: f32 for f16 and bf16.
//
//   optim::Ema ema(nn::parameters(net), {.decay = 0.999});
//   ema.update(scaler.step(opt));    // a skipped step leaves the averages as they are, without asking
//   { const auto scope = ema.applied(); evaluate(net); }
#pragma once

#include "optim/optimizer.h"

namespace mantissa::optim {

struct EmaOptions {
  double decay = 0.999;  // in [0, 1)
};

class Ema {
 public:
  explicit Ema(Parameters parameters, const EmaOptions& options = {});  // starts at the parameters' values

  void update() { update(amp::StepResult()); }
  void update(const amp::StepResult& result);
  const Tensor& average(std::size_t i) const { return averages_[i]; }
  std::size_t size() const { return averages_.size(); }

  // While it lives the parameters hold the averages.
  class [[nodiscard]] Applied {
   public:
    explicit Applied(const Ema& ema);
    ~Applied();
    Applied(const Applied&) = delete;
    Applied& operator=(const Applied&) = delete;

   private:
    const Ema& ema_;
    std::vector<Tensor> own_;  // the parameters' values
  };
  Applied applied() const { return Applied(*this); }

 private:
  std::vector<Tensor> parameters_, averages_;
  double decay_;
};

}  // namespace mantissa::optim
