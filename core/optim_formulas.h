// The updates of all optimizers, each written once over T and shared by CPU and device kernels.
//
// A formula's fields are its hyperparameters, all double, `lr` first: the struct is what lies in
// device memory. at<C>(step) derives the constants of one update (step counts from 1) in double, as
// PyTorch does; the result's operator()(p, g, state) updates one element or one vector of them.
// To add an optimizer: a struct here, its name in Formulas, a class like those in optim/adam.h.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/pointwise.h"

namespace mantissa::optim_formulas {

using pointwise::select;
using pointwise::sqrt;

// Stochastic gradient descent as torch.optim.SGD without momentum.
struct Sgd {
  static constexpr int states = 0;
  static constexpr const char* state_names[] = {""};
  static constexpr const char* names[] = {"lr", "weight_decay", "maximize"};
  double lr = 1e-3, weight_decay = 0;
  double maximize = 0;  // 0 or 1

  template <class C> struct Update {
    C lr, weight_decay, sign;
    template <class T> MANTISSA_HD void operator()(T& p, T g, T*) const {
      g = T(sign) * g + T(weight_decay) * p;
      p = p - T(lr) * g;
    }
  };
  template <class C> MANTISSA_HD Update<C> at(std::int64_t) const {
    return {C(lr), C(weight_decay), C(maximize != 0 ? -1 : 1)};
  }
};

// The same with momentum: the buffer starts as the first gradient, undampened.
struct SgdMomentum {
  static constexpr int states = 1;
  static constexpr const char* state_names[] = {"momentum_buffer"};
  static constexpr const char* names[] = {"lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize"};
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  double nesterov = 0, maximize = 0;  // 0 or 1

  template <class C> struct Update {
    C lr, momentum, fresh, weight_decay, sign;
    bool first, nesterov;
    template <class T> MANTISSA_HD void operator()(T& p, T g, T* state) const {
      g = T(sign) * g + T(weight_decay) * p;
      T& buffer = state[0];
      buffer = first ? g : T(momentum) * buffer + T(fresh) * g;
      p = p - T(lr) * (nesterov ? g + T(momentum) * buffer : buffer);
    }
  };
  template <class C> MANTISSA_HD Update<C> at(std::int64_t step) const {
    return {C(lr), C(momentum), C(1 - dampening), C(weight_decay), C(maximize != 0 ? -1 : 1), step == 1, nesterov != 0};
  }
};

// Adam (Kingma and Ba, 2015) as torch.optim.Adam; `decoupled` weight decay makes it AdamW (Loshchilov
// and Hutter, 2019); with_amsgrad keeps the largest second moment (Reddi et al., 2018).
template <bool with_amsgrad> struct Adam {
  static constexpr int states = with_amsgrad ? 3 : 2;
  static constexpr const char* state_names[] = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
  static constexpr const char* names[] = {"lr", "beta1", "beta2", "eps", "weight_decay", "decoupled", "maximize"};
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  double decoupled = 0, maximize = 0;  // 0 or 1

  template <class C> struct Update {
    C step_size, beta2, fresh1, fresh2, inv_root_correction2, eps, l2, shrink, sign;
    template <class T> MANTISSA_HD void operator()(T& p, T g, T* state) const {
      g = T(sign) * g + T(l2) * p;
      p = p * T(shrink);
      T &m = state[0], &v = state[1];
      m = m + T(fresh1) * (g - m);
      v = T(beta2) * v + T(fresh2) * (g * g);
      T second = v;
      if constexpr (with_amsgrad) second = state[2] = select(v <= state[2], state[2], v);  // NaN stays
      p = p - T(step_size) * m / (sqrt(second) * T(inv_root_correction2) + T(eps));
    }
  };
  template <class C> MANTISSA_HD Update<C> at(std::int64_t step) const {
    const double n = static_cast<double>(step);
    const double correction1 = 1 - std::pow(beta1, n), correction2 = 1 - std::pow(beta2, n);
    return {C(lr / correction1), C(beta2), C(1 - beta1), C(1 - beta2), C(1 / std::sqrt(correction2)), C(eps),
            C(decoupled != 0 ? 0 : weight_decay), C(decoupled != 0 ? 1 - lr * weight_decay : 1), C(maximize != 0 ? -1 : 1)};
  }
};

using Formulas = List<Sgd, SgdMomentum, Adam<false>, Adam<true>>;
template <class F> inline constexpr int number_of = index_in<F>(Formulas{});
template <class F> inline constexpr int hyper_count = static_cast<int>(sizeof(F) / sizeof(double));

}  // namespace mantissa::optim_formulas
