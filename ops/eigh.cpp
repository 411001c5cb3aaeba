// Eigenvalues and eigenvectors of symmetric matrices: eigh, eigvalsh, by a kernel.
#include "core/decompose.h"
#include "core/ops_matrix.h"
#include "core/profile.h"
#include "ops/function.h"
#include "ops/onnx_trace.h"
#include "ops/registry.h"
#include "ops/triangular.h"

namespace mantissa {
namespace {

// For a batch [B, n, n]. Without `wanted`, vectors are undefined.
EighResult decompose(const char* name, const Tensor& a, bool wanted) {
  check_may_look(name, a);
  const ProfileRange range(ProfileKind::op, name, &a);
  const std::int64_t batch = a.size(0), n = a.size(1);
  const Device device = a.device();
  const Tensor work = linalg::own_batch(a), values = empty({batch, n}, {.dtype = f64, .device = device});
  const Tensor vectors_t = wanted ? empty(work.sizes(), {.dtype = a.dtype(), .device = device}) : Tensor();
  const Tensor good = empty({batch}, {.dtype = boolean, .device = device});
  kernels::dense_eigh(device, work.view(), values.view(), wanted ? vectors_t.view() : View{}, good.view());
  linalg::check_converged(name, a, good);
  return {values.to(a.dtype()), wanted ? transpose(vectors_t) : Tensor()};
}

// Values and vectors concatenated in one row per matrix, returned as a single result: [B, n + n n].
struct Eigh {
  static constexpr auto name = "eigh";
  static constexpr Dtype cast_inputs = f32;
  static EighResult unpack(const Tensor& packed, std::int64_t n) {
    return {slice(packed, 1, 0, n), reshape(slice(packed, 1, n), {packed.size(0), n, n})};
  }
  Tensor forward(Saved& saved, const Tensor& a) const {
    linalg::check_precise(name, a);
    const EighResult r = decompose(name, a, true);
    const Tensor y = cat({r.values, flatten(contiguous(r.vectors), 1)}, 1);
    saved.save({a, y});
    return y;
  }
  // Giles, "An extended collection of matrix derivative results", 2008.
  std::vector<Tensor> backward(const Saved& saved, const Tensor& g) const {
    const std::int64_t n = saved[0].size(1);
    const EighResult r = unpack(grad_enabled() ? apply_function(Eigh{}, saved[0]) : saved[1], n), d = unpack(g, n);
    const Tensor gap = unsqueeze(r.values, 1) - unsqueeze(r.values, 2), same = gap == 0.0;
    const Tensor turned = matmul(transpose(r.vectors), d.vectors) / where(same, ones_like(gap), gap);
    const Tensor inside = where(same, zeros_like(gap), turned) + diag_embed(d.values);
    return {matmul(matmul(r.vectors, inside), transpose(r.vectors))};
  }
};
struct Eigvalsh {
  static constexpr auto name = "eigvalsh";
  static constexpr Dtype cast_inputs = f32;
  bool with_vectors = true;  // needed for a gradient
  Tensor forward(Saved& saved, const Tensor& a) const {
    linalg::check_precise(name, a);
    const EighResult r = decompose(name, a, with_vectors);
    if (with_vectors) saved.save({a, r.vectors});
    return r.values;
  }
  std::vector<Tensor> backward(const Saved& saved, const Tensor& g) const {
    const Tensor v = grad_enabled() ? eigh(saved[0]).vectors : saved[1];
    return {matmul(v * unsqueeze(g, 1), transpose(v))};
  }
};

Tensor symmetric(const Tensor& x) { return x + transpose(x); }
void eigh_samples(Samples& s) {  // the samples do not depend on the signs of vectors, which are arbitrary
  const auto f = [](const Tensors& x) {
    const EighResult r = eigh(symmetric(x[0]));
    return Tensors{matmul(r.vectors * unsqueeze(exp(r.values * 0.3), -2), transpose(r.vectors)), square(r.vectors),
                   r.values};
  };
  for (const Dims& sizes : {Dims{3, 3}, Dims{2, 4, 4}}) s.call({s.randn(sizes)}, f);
  s.error_call(
      {s.randn({2, 3})}, [](const Tensors& x) { return eigh(x[0]).values; }, "eigh: needs square matrices");
}
void eigvalsh_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return eigvalsh(symmetric(x[0])); };
  for (const Dims& sizes : {Dims{3, 3}, Dims{2, 4, 4}}) s.call({s.randn(sizes)}, f);
  s.error_call(
      {s.randn({2, 3})}, [](const Tensors& x) { return eigvalsh(x[0]); }, "eigvalsh: needs square matrices");
}
MANTISSA_COMPOSITE(eigh, eigh_samples, .halves = false)
MANTISSA_COMPOSITE(eigvalsh, eigvalsh_samples, .halves = false)

}  // namespace

EighResult eigh(const Tensor& a) {
  linalg::check_square("eigh", a);
  const EighResult r = Eigh::unpack(apply_function(Eigh{}, linalg::as_batch(a)), a.size(-1));
  return {reshape(r.values, linalg::batch_and(a, {a.size(-1)})), reshape(r.vectors, a.sizes())};
}
Tensor eigvalsh(const Tensor& a) {
  linalg::check_square("eigvalsh", a);
  const Eigvalsh op{a.requires_grad() && grad_enabled()};
  return reshape(apply_function(op, linalg::as_batch(a)), linalg::batch_and(a, {a.size(-1)}));
}

}  // namespace mantissa
