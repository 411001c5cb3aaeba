// Learning-rate schedules: plain values with a closed form lr_at(base, step), where base is the optimizer's learning
// rate and step counts from 0. Names, defaults and values are those of torch.optim.lr_scheduler, which computes each
// step's rate from the previous one; here nothing drifts, and any step can be evaluated. Some also set the momentum:
// momentum_at(step). Invalid settings are errors at the first evaluation. How to run them: optim/schedule.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace mantissa::optim {

struct StepLR {  // multiplied by gamma every step_size steps
  std::int64_t step_size = 1;
  double gamma = 0.1;
  double lr_at(double base, std::int64_t step) const;
};
struct MultiStepLR {  // multiplied by gamma at each milestone; duplicates count twice
  std::vector<std::int64_t> milestones;
  double gamma = 0.1;
  double lr_at(double base, std::int64_t step) const;
};
struct ConstantLR {  // factor * base for total_iters steps, then base
  double factor = 1.0 / 3;
  std::int64_t total_iters = 5;
  double lr_at(double base, std::int64_t step) const;
};
struct LinearLR {  // warm-up: from start_factor * base to end_factor * base in total_iters steps
  double start_factor = 1.0 / 3, end_factor = 1;
  std::int64_t total_iters = 5;
  double lr_at(double base, std::int64_t step) const;
};
struct ExponentialLR {  // multiplied by gamma every step
  double gamma = 0.1;
  double lr_at(double base, std::int64_t step) const;
};
struct PolynomialLR {  // base * (1 - step / total_iters)^power, then 0
  std::int64_t total_iters = 5;
  double power = 1;
  double lr_at(double base, std::int64_t step) const;
};
struct CosineAnnealingLR {  // half a cosine from base to eta_min in t_max steps, and back
  std::int64_t t_max = 1;
  double eta_min = 0;
  double lr_at(double base, std::int64_t step) const;
};
// Loshchilov and Hutter, 2017: from base to eta_min in t_0 steps, in t_0 * t_mult, ...
struct CosineAnnealingWarmRestarts {
  std::int64_t t_0 = 1, t_mult = 1;
  double eta_min = 0;
  double lr_at(double base, std::int64_t step) const;
};
struct LambdaLR {  // base * factor(step); a plain callable is a schedule as well
  std::function<double(std::int64_t)> lr_lambda;
  double lr_at(double base, std::int64_t step) const;
};
// base * factor(1) * ... * factor(step). Factors are evaluated in order and their product is cached, thread-safely for
// copies of the schedule; `lr_lambda` must depend on the step alone.
class MultiplicativeLR {
 public:
  explicit MultiplicativeLR(std::function<double(std::int64_t)> lr_lambda);
  double lr_at(double base, std::int64_t step) const;

 private:
  struct Product;
  std::shared_ptr<Product> product_;
};
// Smith and Topin, 2019; ignores base. The rates of steps 0 .. total_steps - 1; one more step, that of a loop that ends
// with schedule.step(), keeps the last rate, and a later one is an error.
struct OneCycleLR {
  double max_lr = 1e-2;
  std::int64_t total_steps = 1;
  double pct_start = 0.3;  // fraction of the cycle in which the rate increases
  bool linear = false;     // else cosine
  bool cycle_momentum = true;  // momentum, or Adam's beta1, moves inversely to the rate
  double base_momentum = 0.85, max_momentum = 0.95;
  double div_factor = 25, final_div_factor = 1e4;
  bool three_phase = false;
  double lr_at(double base, std::int64_t step) const;
  std::optional<double> momentum_at(std::int64_t step) const;
};
enum class Cycle { triangular, triangular2, exp_range };  // peaks stay, halve per cycle, or shrink by gamma per step
struct CyclicLR {  // Smith, 2017; ignores base
  double base_lr = 1e-3, max_lr = 1e-2;
  std::int64_t step_size_up = 2000;
  std::optional<std::int64_t> step_size_down{};  // by default step_size_up
  Cycle mode = Cycle::triangular;
  double gamma = 1;
  std::function<double(double)> scale_fn{};  // instead of mode: scales peaks, by cycle number (from 1) ...
  bool scale_by_iterations = false;          // ... or of the step
  bool cycle_momentum = true;                // momentum, or Adam's beta1, moves inversely to the rate
  double base_momentum = 0.8, max_momentum = 0.9;
  double lr_at(double base, std::int64_t step) const;
  std::optional<double> momentum_at(std::int64_t step) const;

 private:
  double height_at(std::int64_t step) const;  // 0 at base_lr, 1 at max_lr
};
struct SWALR {  // from base to swa_lr in anneal_epochs steps, then constant: for averaging weights (optim/ema.h)
  double swa_lr = 1e-2;
  std::int64_t anneal_epochs = 10;
  bool linear = false;  // else cosine
  double lr_at(double base, std::int64_t step) const;
};

}  // namespace mantissa::optim
