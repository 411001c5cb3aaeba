// Every schedule with a closed form, in the configurations of tests/golden/schedules.py.
#pragma once

#include <map>
#include <string>

#include "optim/schedule.h"

namespace mantissa::test {

inline const std::map<std::string, optim::Schedule>& schedules() {
  using namespace optim;
  static const std::map<std::string, Schedule> all{
      {"step", StepLR{.step_size = 30, .gamma = 0.5}},
      {"multi_step", MultiStepLR{.milestones = {20, 50, 50, 120}, .gamma = 0.3}},
      {"constant", ConstantLR{}},
      {"constant_long", ConstantLR{.factor = 0.2, .total_iters = 77}},
      {"linear", LinearLR{}},
      {"linear_down", LinearLR{.start_factor = 1, .end_factor = 0.05, .total_iters = 150}},
      {"exponential", ExponentialLR{.gamma = 0.97}},
      {"polynomial", PolynomialLR{}},
      {"polynomial_power", PolynomialLR{.total_iters = 180, .power = 2.5}},
      {"cosine", CosineAnnealingLR{.t_max = 150, .eta_min = 0.01}},
      {"cosine_waves", CosineAnnealingLR{.t_max = 30}},
      {"restarts", CosineAnnealingWarmRestarts{.t_0 = 25}},
      {"restarts_longer", CosineAnnealingWarmRestarts{.t_0 = 7, .t_mult = 3, .eta_min = 0.005}},
      {"lambda", LambdaLR{[](std::int64_t t) { return 1 / (1 + 0.1 * static_cast<double>(t)); }}},
      {"multiplicative", MultiplicativeLR([](std::int64_t t) { return t % 3 != 0 ? 0.99 : 0.98; })},
      {"one_cycle", OneCycleLR{.max_lr = 0.4, .total_steps = 200}},
      {"one_cycle_linear",
       OneCycleLR{.max_lr = 0.4, .total_steps = 200, .pct_start = 0.25, .linear = true, .div_factor = 10}},
      {"one_cycle_three", OneCycleLR{.max_lr = 0.4, .total_steps = 200, .final_div_factor = 100, .three_phase = true}},
      {"cyclic", CyclicLR{.base_lr = 0.01, .max_lr = 0.2, .step_size_up = 30}},
      {"cyclic_halving",
       CyclicLR{.base_lr = 0.01, .max_lr = 0.2, .step_size_up = 20, .step_size_down = 35, .mode = Cycle::triangular2}},
      {"cyclic_shrinking", CyclicLR{.base_lr = 0.01,
                                    .max_lr = 0.2,
                                    .step_size_up = 25,
                                    .mode = Cycle::exp_range,
                                    .gamma = 0.99,
                                    .base_momentum = 0.7,
                                    .max_momentum = 0.95}},
      {"cyclic_own", CyclicLR{.base_lr = 0.01,
                              .max_lr = 0.2,
                              .step_size_up = 25,
                              .scale_fn = [](double x) { return 1 / (1 + x); },
                              .cycle_momentum = false}},
      {"swa", SWALR{.swa_lr = 0.03}},
      {"swa_linear", SWALR{.swa_lr = 0.03, .anneal_epochs = 120, .linear = true}},
      {"sequential", SequentialLR{{LinearLR{.start_factor = 0.1, .total_iters = 20}, CosineAnnealingLR{.t_max = 100},
                                   ConstantLR{.factor = 0.1, .total_iters = 1000}},
                                  {20, 120}}},
      {"chained", ChainedScheduler{{LinearLR{.start_factor = 0.1, .total_iters = 20}, ExponentialLR{.gamma = 0.98},
                                    MultiStepLR{.milestones = {60, 140}}}}}};
  return all;
}

}  // namespace mantissa::test
