// Validates each optimizer's options, and converts them to the formula's fields.
#include <bit>

#include "core/optim_formulas.h"
#include "optim/adadelta.h"
#include "optim/adagrad.h"
#include "optim/adam.h"
#include "optim/adamax.h"
#include "optim/asgd.h"
#include "optim/lamb.h"
#include "optim/lion.h"
#include "optim/nadam.h"
#include "optim/radam.h"
#include "optim/rmsprop.h"
#include "optim/rprop.h"
#include "optim/sgd.h"

namespace mantissa::optim {
namespace {

namespace formulas = optim_formulas;

void check_not_negative(const char* optimizer, const char* what, double value) {
  check(value >= 0, optimizer, ": ", what, " must not be negative, got ", value);
}
void check_betas(const char* optimizer, const std::array<double, 2>& betas) {
  for (double beta : betas) check(beta >= 0 && beta < 1, optimizer, ": betas must be in [0, 1), got ", beta);
}
template <class O> void check_rate_and_decay(const char* optimizer, const O& o) {
  check_not_negative(optimizer, "lr", o.lr);
  check_not_negative(optimizer, "weight_decay", o.weight_decay);
}
template <class O> void check_adam_options(const char* optimizer, const O& o) {
  check_rate_and_decay(optimizer, o);
  check_not_negative(optimizer, "eps", o.eps);
  check_betas(optimizer, o.betas);
}

double flag(bool on) { return on ? 1 : 0; }

// Fields common to the formulas of Adam's family.
template <class F, class O> F adam_like(const O& o) {
  F f;
  f.lr = o.lr;
  f.beta1 = o.betas[0];
  f.beta2 = o.betas[1];
  f.eps = o.eps;
  f.weight_decay = o.weight_decay;
  f.maximize = flag(o.maximize);
  return f;
}

}  // namespace

template <class F> void Optimizer::add(Parameters parameters, const F& hyper) {
  static_assert(std::size(F::names) == formulas::hyper_count<F>);
  Group g;
  g.formula = formulas::number_of<F>;
  g.hyper_names = F::names;
  g.state_names = std::span(F::state_names).first(F::states);
  g.scalar_names = formulas::scalar_names_of<F>();
  if constexpr (requires { F::fixed; }) g.fixed = F::fixed;
  const auto values = std::bit_cast<std::array<double, formulas::hyper_count<F>>>(hyper);
  g.hyper_values.assign(values.begin(), values.end());
  if constexpr (requires { hyper.initial_state(0); }) {
    for (int k = 0; k < F::states; ++k) g.initial_state.push_back(hyper.initial_state(k));
  }
  if constexpr (requires { hyper.initial_scalar(0); }) {
    for (std::size_t k = 0; k < g.scalar_names.size(); ++k)
      g.initial_scalars.push_back(hyper.initial_scalar(static_cast<int>(k)));
  }
  if constexpr (requires { F::state_from_lr; }) g.state_from_lr = F::state_from_lr;
  if constexpr (requires { F::scalar_from_lr; }) g.scalar_from_lr = F::scalar_from_lr;
  g.parameters = std::move(parameters.tensors);
  g.names = std::move(parameters.names);
  add_group(std::move(g));
}

void SGD::add_group(Parameters parameters, const SgdOptions& o) {
  check_rate_and_decay("SGD", o);
  check_not_negative("SGD", "momentum", o.momentum);
  check(!o.nesterov || (o.momentum > 0 && o.dampening == 0), "SGD: nesterov needs a momentum above 0 and no dampening");
  if (o.momentum > 0) {
    add(std::move(parameters), formulas::SgdMomentum{.lr = o.lr, .momentum = o.momentum, .dampening = o.dampening,
                                                     .weight_decay = o.weight_decay, .nesterov = flag(o.nesterov),
                                                     .maximize = flag(o.maximize)});
  } else {
    add(std::move(parameters), formulas::Sgd{.lr = o.lr, .weight_decay = o.weight_decay, .maximize = flag(o.maximize)});
  }
}

namespace {
template <class O, class Add> void adam(const O& o, bool decoupled, Add&& add) {
  const auto fill = [&](auto formula) {
    formula.decoupled = flag(decoupled);
    add(formula);
  };
  if (o.amsgrad) fill(adam_like<formulas::Adam<true>>(o));
  else fill(adam_like<formulas::Adam<false>>(o));
}
}  // namespace

void Adam::add_group(Parameters parameters, const AdamOptions& o) {
  check_adam_options("Adam", o);
  adam(o, o.decoupled_weight_decay, [&](const auto& formula) { add(std::move(parameters), formula); });
}
void AdamW::add_group(Parameters parameters, const AdamWOptions& o) {
  check_adam_options("AdamW", o);
  adam(o, true, [&](const auto& formula) { add(std::move(parameters), formula); });
}
void Adamax::add_group(Parameters parameters, const AdamaxOptions& o) {
  check_adam_options("Adamax", o);
  add(std::move(parameters), adam_like<formulas::Adamax>(o));
}
void NAdam::add_group(Parameters parameters, const NAdamOptions& o) {
  check_adam_options("NAdam", o);
  check_not_negative("NAdam", "momentum_decay", o.momentum_decay);
  auto f = adam_like<formulas::NAdam>(o);
  f.momentum_decay = o.momentum_decay;
  f.decoupled = flag(o.decoupled_weight_decay);
  add(std::move(parameters), f);
}
void RAdam::add_group(Parameters parameters, const RAdamOptions& o) {
  check_adam_options("RAdam", o);
  auto f = adam_like<formulas::RAdam>(o);
  f.decoupled = flag(o.decoupled_weight_decay);
  add(std::move(parameters), f);
}
void LAMB::add_group(Parameters parameters, const LAMBOptions& o) {
  check_adam_options("LAMB", o);
  auto f = adam_like<formulas::LAMB>(o);
  f.bias_correction = flag(o.bias_correction);
  add(std::move(parameters), f);
}
void Lion::add_group(Parameters parameters, const LionOptions& o) {
  check_rate_and_decay("Lion", o);
  check_betas("Lion", o.betas);
  add(std::move(parameters), formulas::Lion{.lr = o.lr, .beta1 = o.betas[0], .beta2 = o.betas[1],
                                            .weight_decay = o.weight_decay, .maximize = flag(o.maximize)});
}

void RMSprop::add_group(Parameters parameters, const RMSpropOptions& o) {
  check_rate_and_decay("RMSprop", o);
  check_not_negative("RMSprop", "eps", o.eps);
  check_not_negative("RMSprop", "momentum", o.momentum);
  check_not_negative("RMSprop", "alpha", o.alpha);
  const auto fill = [&](auto f) {
    f.lr = o.lr;
    f.alpha = o.alpha;
    f.eps = o.eps;
    f.weight_decay = o.weight_decay;
    f.momentum = o.momentum;
    f.maximize = flag(o.maximize);
    add(std::move(parameters), f);
  };
  if (o.momentum > 0 && o.centered) fill(formulas::RMSprop<true, true>{});
  else if (o.momentum > 0) fill(formulas::RMSprop<true, false>{});
  else if (o.centered) fill(formulas::RMSprop<false, true>{});
  else fill(formulas::RMSprop<false, false>{});
}

void Adagrad::add_group(Parameters parameters, const AdagradOptions& o) {
  check_rate_and_decay("Adagrad", o);
  check_not_negative("Adagrad", "lr_decay", o.lr_decay);
  check_not_negative("Adagrad", "initial_accumulator_value", o.initial_accumulator_value);
  check_not_negative("Adagrad", "eps", o.eps);
  add(std::move(parameters), formulas::Adagrad{.lr = o.lr, .lr_decay = o.lr_decay, .weight_decay = o.weight_decay,
                                               .initial_accumulator_value = o.initial_accumulator_value, .eps = o.eps,
                                               .maximize = flag(o.maximize)});
}

void Adadelta::add_group(Parameters parameters, const AdadeltaOptions& o) {
  check_rate_and_decay("Adadelta", o);
  check(o.rho >= 0 && o.rho <= 1, "Adadelta: rho must be in [0, 1], got ", o.rho);
  check_not_negative("Adadelta", "eps", o.eps);
  add(std::move(parameters),
      formulas::Adadelta{
          .lr = o.lr, .rho = o.rho, .eps = o.eps, .weight_decay = o.weight_decay, .maximize = flag(o.maximize)});
}

void ASGD::add_group(Parameters parameters, const ASGDOptions& o) {
  check_rate_and_decay("ASGD", o);
  add(std::move(parameters), formulas::ASGD{.lr = o.lr, .lambd = o.lambd, .alpha = o.alpha, .t0 = o.t0,
                                            .weight_decay = o.weight_decay, .maximize = flag(o.maximize)});
}

void Rprop::add_group(Parameters parameters, const RpropOptions& o) {
  check_not_negative("Rprop", "lr", o.lr);
  check(o.etas[0] > 0 && o.etas[0] < 1 && o.etas[1] > 1, "Rprop: etas must be one in (0, 1) and one above 1, got ",
        o.etas[0], " and ", o.etas[1]);
  check(o.step_sizes[0] >= 0 && o.step_sizes[0] <= o.step_sizes[1],
        "Rprop: step_sizes must be smallest and largest, got ", o.step_sizes[0], " and ", o.step_sizes[1]);
  add(std::move(parameters), formulas::Rprop{.lr = o.lr, .eta_minus = o.etas[0], .eta_plus = o.etas[1],
                                             .step_size_min = o.step_sizes[0], .step_size_max = o.step_sizes[1],
                                             .maximize = flag(o.maximize)});
}

}  // namespace mantissa::optim
