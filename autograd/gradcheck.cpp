#include "autograd/gradcheck.h"

#include <cmath>
#include <cstring>

#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "core/ops.h"
#include "core/random.h"

namespace mantissa {
namespace {

using Tensors = std::vector<Tensor>;

// A tensor's element by row-major index, whatever its strides.
double& element(const Tensor& x, std::int64_t i) {
  std::int64_t offset = 0;
  for (int d = x.dim() - 1; d >= 0; --d) {
    offset += i % x.sizes()[d] * x.strides()[d];
    i /= x.sizes()[d];
  }
  return static_cast<double*>(x.raw_data())[offset];
}

Tensor random_like(const Tensor& x, std::uint64_t seed, std::uint64_t& stream) {
  Tensor t = Tensor::allocate(x.sizes(), f64);
  const Philox philox{seed};
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    const auto w = philox(static_cast<std::uint64_t>(i), stream);
    element(t, i) = 2 * static_cast<double>(uniform_from_bits(w.v[0])) - 1;
  }
  ++stream;
  return t;
}
Tensors random_like(const Tensors& x, std::uint64_t seed, std::uint64_t& stream) {
  Tensors t;
  for (const Tensor& one : x) t.push_back(random_like(one, seed, stream));
  return t;
}

double dot(const Tensors& a, const Tensors& b) {
  double sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k) {
    for (std::int64_t i = 0; i < a[k].numel(); ++i) sum += element(a[k], i) * element(b[k], i);
  }
  return sum;
}
std::int64_t count(const Tensors& x) {
  std::int64_t n = 0;
  for (const Tensor& t : x) n += t.numel();
  return n;
}

// Restores a modified input, also if the function throws.
struct PutBack {
  explicit PutBack(const Tensor& t) : x(t), before(t.detach().clone()) {}
  ~PutBack() {
    for (std::int64_t i = 0; i < x.numel(); ++i) element(x, i) = element(before, i);
  }
  PutBack(const PutBack&) = delete;
  const Tensor& x;
  const Tensor before;
};

class Checker {
 public:
  Checker(const TensorFunction& fn, const Tensors& inputs, const GradcheckOptions& o)
      : fn_(fn), inputs_(inputs), o_(o) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].requires_grad()) continue;
      const Tensor& x = inputs[i];
      check(x.dtype() == f64, "gradcheck: input ", i, " is ", x, "; differences need f64");
      for (int d = 0; d < x.dim(); ++d) {
        check(x.sizes()[d] <= 1 || x.strides()[d] > 0, "gradcheck: input ", i,
              " repeats elements (stride 0); pass a clone()");
      }
      checked_.push_back(x);
      index_.push_back(i);
    }
    check(!checked_.empty(), "gradcheck: no input has requires_grad");
    const EnableGrad record;
    results_ = call();
    check(!results_.empty(), "gradcheck: no result requires a gradient");
    check_repeatable();
  }

  void run() {
    check_backward_repeats();
    if (count(checked_) <= o_.full_jacobian && count(results_) <= o_.full_jacobian) compare_jacobians();
    else compare_directions();
  }

 private:
  // The results that require gradients: the same ones whether this call is recorded or not.
  Tensors call() {
    const Tensors all = fn_(inputs_);
    if (picked_.empty()) {
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (!all[i].requires_grad()) continue;
        check(all[i].dtype() == f64, "gradcheck: result ", i, " is ", all[i], "; differences need f64");
        picked_.push_back(i);
      }
    }
    Tensors y;
    for (std::size_t i : picked_) y.push_back(all[i]);
    return y;
  }
  Tensors evaluate() {
    const NoGrad quiet;
    Tensors y = call();
    for (Tensor& t : y) t = t.detach().clone();  // a result may be a view of an input that is about to be modified
    return y;
  }
  Tensors gradients(const Tensors& cotangents) {
    return grad(results_, checked_, cotangents, {.retain_graph = true, .allow_unused = true});
  }

  // Random functions cannot be compared with differences.
  void check_repeatable() {
    const Tensors a = evaluate(), b = evaluate();
    for (std::size_t k = 0; k < a.size(); ++k) {
      check(std::memcmp(a[k].raw_data(), b[k].raw_data(), static_cast<std::size_t>(a[k].nbytes())) == 0,
            "gradcheck: two calls of the function differ; seed its random numbers inside it");
    }
  }

  void check_backward_repeats() {
    const Tensors v = random_like(results_, o_.seed, stream_);
    const Tensors a = gradients(v), b = gradients(v);
    for (std::size_t k = 0; k < a.size(); ++k) {
      if (!a[k].defined()) continue;
      const Tensor& x = checked_[k];
      check(a[k].sizes() == x.sizes() && a[k].dtype() == x.dtype(), "gradcheck: the gradient of input ", index_[k],
            " is ", describe(a[k]), ", the input ", x);
      for (std::int64_t i = 0; i < x.numel(); ++i) {
        const double p = element(a[k], i), q = element(b[k], i);
        check(std::memcmp(&p, &q, sizeof p) == 0, "gradcheck: backward gave ", p, " and then ", q, " for element ", i,
              " of input ", index_[k], "; it must give the same bits each time");
      }
    }
  }

  bool agree(double analytic, double numeric) const {
    return std::abs(analytic - numeric) <= o_.atol + o_.rtol * std::abs(numeric);
  }

  // The full Jacobian: all result elements by all input elements.
  void compare_jacobians() {
    std::vector<Tensors> rows;  // for each result element, the gradients of the inputs
    for (std::size_t r = 0; r < results_.size(); ++r) {
      for (std::int64_t m = 0; m < results_[r].numel(); ++m) {
        Tensors v;
        for (const Tensor& y : results_) v.push_back(zeros(y.sizes(), {.dtype = f64}));
        element(v[r], m) = 1;
        rows.push_back(gradients(v));
      }
    }
    for (std::size_t k = 0; k < checked_.size(); ++k) {
      for (std::int64_t i = 0; i < checked_[k].numel(); ++i) {
        const PutBack guard(checked_[k]);
        double& x = element(checked_[k], i);
        const double before = x;
        x = before + o_.eps;
        const Tensors plus = evaluate();
        x = before - o_.eps;
        const Tensors minus = evaluate();
        compare_column(rows, plus, minus, k, i);
      }
    }
  }
  void compare_column(const std::vector<Tensors>& rows, const Tensors& plus, const Tensors& minus, std::size_t k,
                      std::int64_t i) {
    std::size_t row = 0;
    for (std::size_t r = 0; r < plus.size(); ++r) {
      for (std::int64_t m = 0; m < plus[r].numel(); ++m, ++row) {
        const double numeric = (element(plus[r], m) - element(minus[r], m)) / (2 * o_.eps);
        const Tensor& g = rows[row][k];
        const double analytic = g.defined() ? element(g, i) : 0;
        check(agree(analytic, numeric), "gradcheck: d result ", picked_[r], " element ", m, " / d input ", index_[k],
              " element ", i, ": analytic ", analytic, ", numeric ", numeric);
      }
    }
  }

  // The derivative along a random direction u of one input, of the results weighted by random v.
  void compare_directions() {
    for (std::size_t k = 0; k < checked_.size(); ++k) {
      for (int n = 0; n < o_.directions; ++n) {
        const Tensors v = random_like(results_, o_.seed, stream_);
        const Tensor u = random_like(checked_[k], o_.seed, stream_);
        const Tensor g = gradients(v)[k];
        const double analytic = g.defined() ? dot({g}, {u}) : 0;
        const PutBack guard(checked_[k]);
        move(checked_[k], guard.before, u, o_.eps);
        const double plus = dot(evaluate(), v);
        move(checked_[k], guard.before, u, -o_.eps);
        const double minus = dot(evaluate(), v);
        const double numeric = (plus - minus) / (2 * o_.eps);
        check(agree(analytic, numeric), "gradcheck: derivative along random direction ", n, " of input ", index_[k],
              " (", describe(checked_[k]), "): analytic ", analytic, ", numeric ", numeric);
      }
    }
  }
  static void move(const Tensor& x, const Tensor& from, const Tensor& u, double eps) {
    for (std::int64_t i = 0; i < x.numel(); ++i) element(x, i) = element(from, i) + eps * element(u, i);
  }

  const TensorFunction& fn_;
  const Tensors& inputs_;
  const GradcheckOptions& o_;
  Tensors checked_;                 // the inputs that require a gradient ...
  std::vector<std::size_t> index_;  // ... and their indices
  std::vector<std::size_t> picked_;
  Tensors results_;
  std::uint64_t stream_ = 0;
};

}  // namespace

void gradcheck(const TensorFunction& fn, const Tensors& inputs, GradcheckOptions o) { Checker(fn, inputs, o).run(); }

void gradgradcheck(const TensorFunction& fn, const Tensors& inputs, GradcheckOptions o) {
  std::vector<std::size_t> picked;
  Tensors all = inputs;
  std::uint64_t stream = 1000;
  const Tensors results = fn(inputs);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].requires_grad()) continue;
    picked.push_back(i);
    all.push_back(random_like(results[i], o.seed, stream).requires_grad_());
  }
  check(!picked.empty(), "gradgradcheck: no result requires a gradient");
  const std::size_t n = inputs.size();
  auto first_gradients = [&fn, picked, n](const Tensors& x) {
    const bool record = grad_enabled();
    const EnableGrad enable;
    const Tensors y = fn(Tensors(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(n)));
    Tensors roots, wanted, v(x.begin() + static_cast<std::ptrdiff_t>(n), x.end());
    for (std::size_t i : picked) roots.push_back(y[i]);
    for (std::size_t i = 0; i < n; ++i) if (x[i].requires_grad()) wanted.push_back(x[i]);
    Tensors g = grad(roots, wanted, v, {.create_graph = record, .allow_unused = true});
    for (std::size_t i = 0; i < g.size(); ++i) if (!g[i].defined()) g[i] = zeros_like(wanted[i]);
    return g;
  };
  gradcheck(first_gradients, all, o);
}

}  // namespace mantissa
