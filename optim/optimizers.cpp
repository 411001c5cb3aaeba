// Checks of the options of each optimizer, and their translation to the formula's fields.
#include <bit>

#include "core/optim_formulas.h"
#include "optim/adam.h"
#include "optim/sgd.h"

namespace mantissa::optim {
namespace {

using namespace optim_formulas;

void check_not_negative(const char* optimizer, const char* what, double value) {
  check(value >= 0, optimizer, ": ", what, " must not be negative, got ", value);
}

}  // namespace

template <class F> void Optimizer::add(Parameters parameters, const F& hyper) {
  static_assert(std::size(F::names) == hyper_count<F>);
  Group g;
  g.formula = number_of<F>;
  g.hyper_names = F::names;
  g.state_names = std::span(F::state_names).first(F::states);
  const auto values = std::bit_cast<std::array<double, hyper_count<F>>>(hyper);
  g.hyper_values.assign(values.begin(), values.end());
  g.parameters = std::move(parameters.tensors);
  g.names = std::move(parameters.names);
  add_group(std::move(g));
}

void Sgd::add_group(Parameters parameters, const SgdOptions& o) {
  check_not_negative("Sgd", "lr", o.lr);
  check_not_negative("Sgd", "momentum", o.momentum);
  check_not_negative("Sgd", "weight_decay", o.weight_decay);
  check(!o.nesterov || (o.momentum > 0 && o.dampening == 0), "Sgd: nesterov needs a momentum above 0 and no dampening");
  if (o.momentum > 0) {
    add(std::move(parameters), SgdMomentum{.lr = o.lr, .momentum = o.momentum, .dampening = o.dampening,
                                           .weight_decay = o.weight_decay, .nesterov = static_cast<double>(o.nesterov),
                                           .maximize = static_cast<double>(o.maximize)});
  } else {
    add(std::move(parameters), optim_formulas::Sgd{.lr = o.lr, .weight_decay = o.weight_decay,
                                                   .maximize = static_cast<double>(o.maximize)});
  }
}

namespace {
template <class O, class Add> void adam_formula(const char* name, const O& o, bool decoupled, Add&& add) {
  check_not_negative(name, "lr", o.lr);
  check_not_negative(name, "eps", o.eps);
  check_not_negative(name, "weight_decay", o.weight_decay);
  for (double beta : o.betas) check(beta >= 0 && beta < 1, name, ": betas must be in [0, 1), got ", beta);
  const auto fill = [&](auto formula) {
    formula.lr = o.lr;
    formula.beta1 = o.betas[0];
    formula.beta2 = o.betas[1];
    formula.eps = o.eps;
    formula.weight_decay = o.weight_decay;
    formula.decoupled = decoupled;
    formula.maximize = o.maximize;
    add(formula);
  };
  if (o.amsgrad) fill(optim_formulas::Adam<true>{});
  else fill(optim_formulas::Adam<false>{});
}
}  // namespace

void Adam::add_group(Parameters parameters, const AdamOptions& o) {
  adam_formula("Adam", o, false, [&](const auto& formula) { add(std::move(parameters), formula); });
}
void AdamW::add_group(Parameters parameters, const AdamWOptions& o) {
  adam_formula("AdamW", o, true, [&](const auto& formula) { add(std::move(parameters), formula); });
}

}  // namespace mantissa::optim
