#include "optim/muon.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/ops.h"

namespace mantissa::optim {
namespace {

// The hyperparameters in the order of their names. The first three are read on the device; the others are read on the
// host to select the operators to run.
namespace hyper {
enum : std::size_t { lr, weight_decay, momentum, nesterov, eps, ns_a, ns_b, ns_c, ns_steps, adjust_lr, ns_dtype };
}
constexpr const char* hyper_names[] = {"lr",   "weight_decay", "momentum", "nesterov",     "eps",     "ns_a",
                                       "ns_b", "ns_c",         "ns_steps", "adjust_lr_fn", "ns_dtype"};
constexpr const char* state_names[] = {"momentum_buffer"};

// Iterates x -> a x + b (x x') x + c (x x')^2 x, which moves every singular value towards 1.
Tensor newton_schulz(const Tensor& matrix, const std::vector<double>& h) {
  const bool tall = matrix.size(0) > matrix.size(1);
  Tensor x = matrix.to(static_cast<Dtype>(static_cast<int>(h[hyper::ns_dtype])));
  if (tall) x = transpose(x);
  x = x / clamp(norm(x), h[hyper::eps], std::numeric_limits<double>::infinity());
  for (int k = 0; k < static_cast<int>(h[hyper::ns_steps]); ++k) {
    const Tensor gram = matmul(x, transpose(x));
    x = addmm(x, addmm(gram, gram, gram, h[hyper::ns_b], h[hyper::ns_c]), x, h[hyper::ns_a]);
  }
  return tall ? transpose(x) : x;
}

double rate_factor(AdjustLr kind, const Tensor& p) {
  const double rows = static_cast<double>(p.size(0)), columns = static_cast<double>(p.size(1));
  switch (kind) {
    case AdjustLr::match_rms_adamw: return 0.2 * std::sqrt(std::max(rows, columns));
    case AdjustLr::spectral_unclamped: return std::sqrt(rows / columns);
    default: return std::sqrt(std::max(1.0, rows / columns));
  }
}

}  // namespace

void Muon::add_group(Parameters parameters, const MuonOptions& o) {
  check(o.lr >= 0, "Muon: lr must not be negative, got ", o.lr);
  check(o.momentum >= 0, "Muon: momentum must not be negative, got ", o.momentum);
  check(o.weight_decay >= 0, "Muon: weight_decay must not be negative, got ", o.weight_decay);
  check(o.ns_steps >= 0 && o.ns_steps < 100, "Muon: ns_steps must be from 0 to 99, got ", o.ns_steps);
  check(is_floating(o.ns_dtype), "Muon: ns_dtype must be a floating dtype, got ", o.ns_dtype);
  for (std::size_t i = 0; i < parameters.tensors.size(); ++i) {
    const Tensor& p = parameters.tensors[i];
    if (!p.defined() || p.dim() == 2) continue;
    fail("Muon: ", parameter_label(parameters.names[i], i), " is ", p,
         ", not a matrix; give biases, norms and embeddings to another optimizer, such as AdamW");
  }
  Group g;
  g.hyper_names = hyper_names;
  g.state_names = state_names;
  g.hyper_values = {o.lr,
                    o.weight_decay,
                    o.momentum,
                    o.nesterov ? 1.0 : 0.0,
                    o.eps,
                    o.ns_coefficients[0],
                    o.ns_coefficients[1],
                    o.ns_coefficients[2],
                    static_cast<double>(o.ns_steps),
                    static_cast<double>(o.adjust_lr_fn),
                    static_cast<double>(o.ns_dtype)};
  g.parameters = std::move(parameters.tensors);
  g.names = std::move(parameters.names);
  Optimizer::add_group(std::move(g));
}

void Muon::update(Group& group, std::size_t i, const Tensor& gradient, const Keep& keep) {
  const std::vector<double>& h = group.hyper_values;
  const Dtype dtype = gradient.dtype();
  const Tensor p = group.value(i).detach();
  Tensor& buffer = group.state[i][0];
  const Tensor momentum = group.hyper_at(hyper::momentum).to(dtype);
  const Tensor average = lerp(gradient, buffer.to(dtype), momentum);
  const Tensor direction =
      newton_schulz(h[hyper::nesterov] != 0 ? lerp(gradient, average, momentum) : average, h).to(dtype);
  const Tensor rate = group.hyper_at(hyper::lr);
  const Tensor shrink = (1 - rate * group.hyper_at(hyper::weight_decay)).to(dtype);
  const Tensor step = (rate * rate_factor(static_cast<AdjustLr>(static_cast<int>(h[hyper::adjust_lr])), p)).to(dtype);
  const Tensor next = p.to(dtype) * shrink - direction * step;
  buffer.copy_(keep(buffer, average));
  write_value(group, i, keep(p, next));
}

}  // namespace mantissa::optim
