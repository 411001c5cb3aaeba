// The updates of all optimizers, each written once over T and shared by CPU and device kernels.
//
// A formula's fields are its hyperparameters, all double, `lr` first: the struct is copied to device memory as it is.
// at<C>(step) derives the constants of one update (step counts from 1) in double, as PyTorch does; the result's
// operator()(p, g, state) updates one element or one vector of elements. State starts as initial_state(k), or 0. A
// formula may keep numbers per parameter, named in scalar_names: at() then takes them as well, and advance() changes
// them after the update.
// In an Update `fresh` is 1 - beta, the weight of the new gradient; `l2` is weight decay added to the gradient and
// `shrink` the factor 1 - lr * weight_decay of decoupled decay; `sign` is -1 with maximize.
// To add an optimizer: a struct here, its name in OnePass below, a class like those in optim/adam.h.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "core/pointwise.h"

namespace mantissa::optim_formulas {

using pointwise::abs;
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

// The same with momentum: the buffer starts as the first gradient, without dampening.
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
      if constexpr (with_amsgrad) second = state[2] = select(v <= state[2], state[2], v);  // propagates NaN
      p = p - T(step_size) * m / (sqrt(second) * T(inv_root_correction2) + T(eps));
    }
  };
  template <class C> MANTISSA_HD Update<C> at(std::int64_t step) const {
    const double n = static_cast<double>(step);
    const double correction1 = 1 - std::pow(beta1, n), correction2 = 1 - std::pow(beta2, n);
    return {C(lr / correction1), C(beta2), C(1 - beta1), C(1 - beta2), C(1 / std::sqrt(correction2)), C(eps),
            C(decoupled != 0 ? 0 : weight_decay), C(decoupled != 0 ? 1 - lr * weight_decay : 1),
            C(maximize != 0 ? -1 : 1)};
  }
};

// RMSprop (Hinton, 2012) as torch.optim.RMSprop; `centered` divides by the standard deviation instead.
template <bool with_momentum, bool centered> struct RMSprop {
  static constexpr int states = 1 + with_momentum + centered;
  static constexpr const char* state_names[] = {"square_avg", with_momentum ? "momentum_buffer" : "grad_avg",
                                                "grad_avg"};
  static constexpr const char* names[] = {"lr", "alpha", "eps", "weight_decay", "momentum", "maximize"};
  static constexpr const char* fixed = with_momentum ? "" : "momentum";  // cannot be set later: it has no state
  double lr = 1e-2, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0;
  double maximize = 0;  // 0 or 1

  template <class C> struct Update {
    C lr, alpha, fresh, eps, weight_decay, momentum, sign;
    template <class T> MANTISSA_HD void operator()(T& p, T g, T* state) const {
      g = T(sign) * g + T(weight_decay) * p;
      T& square = state[0];
      square = T(alpha) * square + T(fresh) * (g * g);
      T variance = square;
      if constexpr (centered) {
        T& mean = state[1 + with_momentum];
        mean = mean + T(fresh) * (g - mean);
        variance = square - mean * mean;
        variance = select(variance < T(0), T(0), variance);  // negative by rounding; propagates NaN
      }
      T step = g / (sqrt(variance) + T(eps));
      if constexpr (with_momentum) step = state[1] = T(momentum) * state[1] + step;
      p = p - T(lr) * step;
    }
  };
  template <class C> MANTISSA_HD Update<C> at(std::int64_t) const {
    return {C(lr), C(alpha), C(1 - alpha), C(eps), C(weight_decay), C(momentum), C(maximize != 0 ? -1 : 1)};
  }
};

// Adagrad (Duchi et al., 2011) as torch.optim.Adagrad.
struct Adagrad {
  static constexpr int states = 1;
  static constexpr const char* state_names[] = {"sum"};
  static constexpr const char* names[] = {"lr",  "lr_decay", "weight_decay", "initial_accumulator_value",
                                          "eps", "maximize"};
  double lr = 1e-2, lr_decay = 0, weight_decay = 0, initial_accumulator_value = 0, eps = 1e-10;
  double maximize = 0;  // 0 or 1
  double initial_state(int) const { return initial_accumulator_value; }

  template <class C> struct Update {
    C lr, weight_decay, eps, sign;
    template <class T> MANTISSA_HD void operator()(T& p, T g, T* state) const {
      g = T(sign) * g + T(weight_decay) * p;
      state[0] = state[0] + g * g;
      p = p - T(lr) * g / (sqrt(state[0]) + T(eps));
    }
  };
  template <class C> MANTISSA_HD Update<C> at(std::int64_t step) const {
    return {C(lr / (1 + static_cast<double>(step - 1) * lr_decay)), C(weight_decay), C(eps), C(maximize != 0 ? -1 : 1)};
  }
};

// Adadelta (Zeiler, 2012) as torch.optim.Adadelta.
struct Adadelta {
  static constexpr int states = 2;
  static constexpr const char* state_names[] = {"square_avg", "acc_delta"};
  static constexpr const char* names[] = {"lr", "rho", "eps", "weight_decay", "maximize"};
  double lr = 1, rho = 0.9, eps = 1e-6, weight_decay = 0;
  double maximize = 0;  // 0 or 1

  template <class C> struct Update {
    C lr, rho, fresh, eps, weight_decay, sign;
    template <class T> MANTISSA_HD void operator()(T& p, T g, T* state) const {
      g = T(sign) * g + T(weight_decay) * p;
      T &square = state[0], &accumulated = state[1];
      square = T(rho) * square + T(fresh) * (g * g);
      T delta = sqrt(accumulated + T(eps)) / sqrt(square + T(eps)) * g;
      accumulated = T(rho) * accumulated + T(fresh) * (delta * delta);
      p = p - T(lr) * delta;
    }
  };
  template <class C> MANTISSA_HD Update<C> at(std::int64_t) const {
    return {C(lr), C(rho), C(1 - rho), C(eps), C(weight_decay), C(maximize != 0 ? -1 : 1)};
  }
};

// Adamax (Kingma and Ba, 2015: Adam with the infinity norm) as torch.optim.Adamax.
struct Adamax {
  static constexpr int states = 2;
  static constexpr const char* state_names[] = {"exp_avg", "exp_inf"};
  static constexpr const char* names[] = {"lr", "beta1", "beta2", "eps", "weight_decay", "maximize"};
  double lr = 2e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  double maximize = 0;  // 0 or 1

  template <class C> struct Update {
    C step_size, beta2, fresh, eps, weight_decay, sign;
    template <class T> MANTISSA_HD void operator()(T& p, T g, T* state) const {
      g = T(sign) * g + T(weight_decay) * p;
      T &m = state[0], &largest = state[1];
      m = m + T(fresh) * (g - m);
      T old = T(beta2) * largest, now = abs(g) + T(eps);
      largest = select(old == old, select(old > now, old, now), old);  // propagates NaN of either
      p = p - T(step_size) * m / largest;
    }
  };
  template <class C> MANTISSA_HD Update<C> at(std::int64_t step) const {
    const double correction = 1 - std::pow(beta1, static_cast<double>(step));
    return {C(lr / correction), C(beta2), C(1 - beta1), C(eps), C(weight_decay), C(maximize != 0 ? -1 : 1)};
  }
};

// NAdam (Dozat, 2016: Adam with Nesterov momentum) as torch.optim.NAdam.
struct NAdam {
  static constexpr int states = 2;
  static constexpr const char* state_names[] = {"exp_avg", "exp_avg_sq"};
  static constexpr const char* scalar_names[] = {"mu_product"};
  static constexpr const char* names[] = {"lr",           "beta1",          "beta2",     "eps",
                                          "weight_decay", "momentum_decay", "decoupled", "maximize"};
  double lr = 2e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0, momentum_decay = 4e-3;
  double decoupled = 0, maximize = 0;  // 0 or 1
  double initial_scalar(int) const { return 1; }
  MANTISSA_HD double mu(std::int64_t step) const {
    return beta1 * (1 - 0.5 * std::pow(0.96, static_cast<double>(step) * momentum_decay));
  }
  MANTISSA_HD void advance(double* scalars, std::int64_t step) const { scalars[0] *= mu(step); }

  template <class C> struct Update {
    C gradient_step, momentum_step, beta2, fresh1, fresh2, inv_root_correction2, eps, l2, shrink, sign;
    template <class T> MANTISSA_HD void operator()(T& p, T g, T* state) const {
      g = T(sign) * g + T(l2) * p;
      p = p * T(shrink);
      T &m = state[0], &v = state[1];
      m = m + T(fresh1) * (g - m);
      v = T(beta2) * v + T(fresh2) * (g * g);
      p = p - (T(gradient_step) * g + T(momentum_step) * m) / (sqrt(v) * T(inv_root_correction2) + T(eps));
    }
  };
  template <class C> MANTISSA_HD Update<C> at(std::int64_t step, const double* scalars) const {
    const double correction2 = 1 - std::pow(beta2, static_cast<double>(step));
    const double now = mu(step), next = mu(step + 1), product = scalars[0] * now;
    return {C(lr * (1 - now) / (1 - product)), C(lr * next / (1 - product * next)), C(beta2), C(1 - beta1),
            C(1 - beta2), C(1 / std::sqrt(correction2)), C(eps), C(decoupled != 0 ? 0 : weight_decay),
            C(decoupled != 0 ? 1 - lr * weight_decay : 1), C(maximize != 0 ? -1 : 1)};
  }
};

// RAdam (Liu et al., 2020: Adam that waits until the second moment can be trusted) as torch.optim.RAdam.
struct RAdam {
  static constexpr int states = 2;
  static constexpr const char* state_names[] = {"exp_avg", "exp_avg_sq"};
  static constexpr const char* names[] = {"lr", "beta1", "beta2", "eps", "weight_decay", "decoupled", "maximize"};
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  double decoupled = 0, maximize = 0;  // 0 or 1

  template <class C> struct Update {
    C step_size, beta2, fresh1, fresh2, eps, l2, shrink, sign;
    bool adaptive;
    template <class T> MANTISSA_HD void operator()(T& p, T g, T* state) const {
      g = T(sign) * g + T(l2) * p;
      p = p * T(shrink);
      T &m = state[0], &v = state[1];
      m = m + T(fresh1) * (g - m);
      v = T(beta2) * v + T(fresh2) * (g * g);
      p = adaptive ? p - T(step_size) * m / (sqrt(v) + T(eps)) : p - T(step_size) * m;
    }
  };
  template <class C> MANTISSA_HD Update<C> at(std::int64_t step) const {
    const double n = static_cast<double>(step), power2 = std::pow(beta2, n);
    const double correction1 = 1 - std::pow(beta1, n), correction2 = 1 - power2;
    const double rho_inf = 2 / (1 - beta2) - 1, rho = rho_inf - 2 * n * power2 / correction2;
    const bool adaptive = rho > 5;
    const double rectified =
        adaptive ? std::sqrt(correction2 * (rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho)) : 1;
    return {C(lr / correction1 * rectified), C(beta2), C(1 - beta1), C(1 - beta2), C(eps),
            C(decoupled != 0 ? 0 : weight_decay), C(decoupled != 0 ? 1 - lr * weight_decay : 1),
            C(maximize != 0 ? -1 : 1), adaptive};
  }
};

// 0 and NaN map to themselves
template <class T> MANTISSA_HD T sign_of(T x) { return select(x > T(0), T(1), select(x < T(0), T(-1), x)); }

// Lion (Chen et al., 2023): the sign of an interpolated momentum, with decoupled weight decay.
struct Lion {
  static constexpr int states = 1;
  static constexpr const char* state_names[] = {"exp_avg"};
  static constexpr const char* names[] = {"lr", "beta1", "beta2", "weight_decay", "maximize"};
  double lr = 1e-4, beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
  double maximize = 0;  // 0 or 1

  template <class C> struct Update {
    C lr, beta1, fresh1, beta2, fresh2, shrink, sign;
    template <class T> MANTISSA_HD void operator()(T& p, T g, T* state) const {
      g = T(sign) * g;
      T& m = state[0];
      p = p * T(shrink) - T(lr) * sign_of(T(beta1) * m + T(fresh1) * g);
      m = T(beta2) * m + T(fresh2) * g;
    }
  };
  template <class C> MANTISSA_HD Update<C> at(std::int64_t) const {
    return {C(lr), C(beta1), C(1 - beta1), C(beta2), C(1 - beta2), C(1 - lr * weight_decay), C(maximize != 0 ? -1 : 1)};
  }
};

// Averaged stochastic gradient descent (Polyak and Juditsky, 1992) as torch.optim.ASGD: "ax" is the average.
struct ASGD {
  static constexpr int states = 1;
  static constexpr const char* state_names[] = {"ax"};
  static constexpr const char* scalar_names[] = {"eta", "mu"};
  static constexpr const char* names[] = {"lr", "lambd", "alpha", "t0", "weight_decay", "maximize"};
  double lr = 1e-2, lambd = 1e-4, alpha = 0.75, t0 = 1e6, weight_decay = 0;
  double maximize = 0;  // 0 or 1
  double initial_scalar(int k) const { return k == 0 ? lr : 1; }
  static constexpr int scalar_from_lr = 0;  // initialised from the learning rate at the first step
  MANTISSA_HD void advance(double* scalars, std::int64_t step) const {
    const double n = static_cast<double>(step);
    scalars[0] = lr / std::pow(1 + lambd * lr * n, alpha);
    scalars[1] = n - t0 > 1 ? 1 / (n - t0) : 1;
  }

  template <class C> struct Update {
    C eta, shrink, mu, weight_decay, sign;
    bool copy;
    template <class T> MANTISSA_HD void operator()(T& p, T g, T* state) const {
      g = T(sign) * g + T(weight_decay) * p;
      p = p * T(shrink) - T(eta) * g;
      state[0] = copy ? p : state[0] + T(mu) * (p - state[0]);
    }
  };
  template <class C> MANTISSA_HD Update<C> at(std::int64_t, const double* scalars) const {
    return {C(scalars[0]), C(1 - lambd * scalars[0]), C(scalars[1]),
            C(weight_decay), C(maximize != 0 ? -1 : 1), scalars[1] == 1};
  }
};

// Resilient backpropagation (Riedmiller and Braun, 1993) as torch.optim.Rprop.
struct Rprop {
  static constexpr int states = 2;
  static constexpr const char* state_names[] = {"prev", "step_size"};
  static constexpr const char* names[] = {"lr", "eta_minus", "eta_plus", "step_size_min", "step_size_max", "maximize"};
  double lr = 1e-2, eta_minus = 0.5, eta_plus = 1.2, step_size_min = 1e-6, step_size_max = 50;
  double maximize = 0;  // 0 or 1
  double initial_state(int k) const { return k == 1 ? lr : 0; }
  static constexpr int state_from_lr = 1;  // initialised from the learning rate at the first step

  template <class C> struct Update {
    C minus, plus, low, high, sign;
    template <class T> MANTISSA_HD void operator()(T& p, T g, T* state) const {
      g = T(sign) * g;
      T &previous = state[0], &size = state[1];
      T agreement = g * previous;
      T moved = size * select(agreement > T(0), T(plus), select(agreement < T(0), T(minus), T(1)));
      size = select(moved < T(low), T(low), select(moved > T(high), T(high), moved));
      g = select(agreement < T(0), T(0), g);
      // a NaN gradient moves nothing, as in PyTorch
      p = p - select(g > T(0), size, select(g < T(0), T(0) - size, T(0)));
      previous = g;
    }
  };
  template <class C> MANTISSA_HD Update<C> at(std::int64_t) const {
    return {C(eta_minus), C(eta_plus), C(step_size_min), C(step_size_max), C(maximize != 0 ? -1 : 1)};
  }
};

// LAMB (You et al., 2020): Adam's direction, scaled for every parameter to lr times the parameter's norm. Update gives
// the direction and does not change p; the kernel applies p -= lr * ratio * direction.
struct LAMB {
  static constexpr int states = 2;
  static constexpr const char* state_names[] = {"exp_avg", "exp_avg_sq"};
  static constexpr const char* names[] = {"lr", "beta1", "beta2", "eps", "weight_decay", "bias_correction", "maximize"};
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-6, weight_decay = 0.01;
  double bias_correction = 1, maximize = 0;  // 0 or 1

  template <class C> struct Update {
    C inv_correction1, beta2, fresh1, fresh2, inv_root_correction2, eps, weight_decay, sign;
    template <class T> MANTISSA_HD void moments(T g, T* state) const {
      g = T(sign) * g;
      state[0] = state[0] + T(fresh1) * (g - state[0]);
      state[1] = T(beta2) * state[1] + T(fresh2) * (g * g);
    }
    template <class T> MANTISSA_HD T direction(T p, const T* state) const {
      return T(inv_correction1) * state[0] / (sqrt(state[1]) * T(inv_root_correction2) + T(eps)) + T(weight_decay) * p;
    }
  };
  template <class C> MANTISSA_HD Update<C> at(std::int64_t step) const {
    const double n = static_cast<double>(step);
    const double correction1 = bias_correction != 0 ? 1 - std::pow(beta1, n) : 1;
    const double correction2 = bias_correction != 0 ? 1 - std::pow(beta2, n) : 1;
    return {C(1 / correction1), C(beta2), C(1 - beta1), C(1 - beta2), C(1 / std::sqrt(correction2)), C(eps),
            C(weight_decay), C(maximize != 0 ? -1 : 1)};
  }
  // The paper's trust ratio |p| / |direction|, 1 if either is 0.
  MANTISSA_HD static double ratio(double squares_of_value, double squares_of_direction) {
    return squares_of_value > 0 && squares_of_direction > 0 ? std::sqrt(squares_of_value / squares_of_direction) : 1;
  }
};

// Averages of weights (optim/ema.h): p is the average, g the weight's present value. The first update takes it as it
// is.
struct WeightAverage {
  static constexpr int states = 0;
  double decay = 0;  // below 0: the plain mean of all values

  template <class C> struct Update {
    C fresh;
    template <class T> MANTISSA_HD void operator()(T& p, T g, T*) const {
      T change = g - p;
      p = fresh < C(0.5) ? p + T(fresh) * change : g - change * T(C(1) - fresh);  // as lerp: exactly g for fresh = 1
    }
  };
  template <class C> MANTISSA_HD Update<C> at(std::int64_t step) const {
    const double n = static_cast<double>(step);
    return {C(step == 1 ? 1 : decay < 0 ? 1 / n : 1 - decay)};
  }
};

// Updates that take one pass over the elements; LAMB, which needs norms first, has its own kernel.
using OnePass =
    List<Sgd, SgdMomentum, Adam<false>, Adam<true>, RMSprop<false, false>, RMSprop<true, false>, RMSprop<false, true>,
         RMSprop<true, true>, Adagrad, Adadelta, Adamax, NAdam, RAdam, Lion, ASGD, Rprop,
         WeightAverage>;
template <class F> inline constexpr int number_of = index_in<F>(OnePass{});
template <> inline constexpr int number_of<LAMB> = OnePass::size;
template <class F> inline constexpr int hyper_count = static_cast<int>(sizeof(F) / sizeof(double));
template <class F> constexpr std::span<const char* const> scalar_names_of() {
  if constexpr (requires { F::scalar_names; }) return F::scalar_names;
  else return {};
}

}  // namespace mantissa::optim_formulas
