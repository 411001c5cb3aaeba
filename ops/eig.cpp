// Eigenvalues and eigenvectors of general real matrices: eig, eigvals. A kernel on the host; complex numbers are pairs
// (core/ops_complex.h). For gradients a complex matrix becomes a real one of twice the size, [[re, -im], [im, re]].
#include "core/decompose.h"
#include "core/ops_complex.h"
#include "core/ops_matrix.h"
#include "core/profile.h"
#include "core/recording.h"
#include "ops/function.h"
#include "ops/onnx_trace.h"
#include "ops/registry.h"
#include "ops/triangular.h"

namespace mantissa {
namespace {

// For a batch [B, n, n]. Without `wanted`, vectors are undefined.
EigResult by_kernel(const char* name, const Tensor& a, bool wanted) {
  check_may_look(name, a);
  check_may_read(name, a, "it is computed on the host");
  const ProfileRange range(ProfileKind::op, name, &a);
  const std::int64_t batch = a.size(0), n = a.size(1);
  const Tensor work = linalg::own_batch(a.detach().to(cpu).to(f64)), values = empty({batch, n, 2}, {.dtype = f64});
  const Tensor vectors = wanted ? empty({batch, n, n, 2}, {.dtype = f64}) : Tensor();
  const Tensor good = empty({batch}, {.dtype = boolean});
  kernels::dense_eig(work.view(), values.view(), wanted ? vectors.view() : View{}, good.view());
  linalg::check_converged(name, work, good);
  const auto brought = [&](const Tensor& x) { return x.to(a.dtype()).to(a.device()); };
  return {brought(values), wanted ? brought(vectors) : Tensor()};
}

// --- complex matrices [B, n, m, 2] as real ones ---
Tensor as_real(const Tensor& z) {  // [B, 2 n, 2 m]
  const Tensor re = real(z), im = imag(z);
  return cat({cat({re, -im}, 2), cat({im, re}, 2)}, 1);
}
Tensor upright(const Tensor& z) { return cat({real(z), imag(z)}, 1); }  // [B, 2 n, m], for a right factor
Tensor as_pairs(const Tensor& x) {                                      // inverse of upright
  const std::int64_t n = x.size(1) / 2;
  return stack({slice(x, 1, 0, n), slice(x, 1, n)}, -1);
}
Tensor adjoint(const Tensor& z) { return complex_conj(transpose(z, 1, 2)); }
Tensor product(const Tensor& a, const Tensor& b) { return as_pairs(matmul(as_real(a), upright(b))); }

// The gradient of a: V^-H (diag(values) + K) V^H, with K from the gradient of the vectors, without the part that would
// change a vector's phase or length (Boeddeker et al., "On the computation of complex-valued gradients", 2017).
// Undefined gradients are 0.
Tensor gradient_of(const EigResult& r, const Tensor& to_values, const Tensor& to_vectors) {
  const Tensor v = r.vectors, vh = adjoint(v);
  Tensor inside = diag_embed(real(to_values)), inside_im = diag_embed(imag(to_values));
  if (to_vectors.defined()) {
    const Tensor g = product(vh, to_vectors);
    const Tensor along = diagonal(real(g), 0, 1, 2);  // real parts only: the imaginary part is a phase
    const Tensor rest = g - product(vh, v * unsqueeze(unsqueeze(along, 1), -1));
    // divided by conj(value_j - value_i)
    const Tensor gap = complex_conj(unsqueeze(r.values, 1) - unsqueeze(r.values, 2));
    const Tensor size = sum(square(gap), {-1}), same = size == 0.0;
    const Tensor one_over = where(same, zeros_like(size), reciprocal(where(same, ones_like(size), size)));
    const Tensor quotient = complex_mul(rest, complex_conj(gap)) * unsqueeze(one_over, -1);
    inside = inside + real(quotient), inside_im = inside_im + imag(quotient);
  }
  const Tensor middle = product(stack({inside, inside_im}, -1), vh);
  return real(as_pairs(solve(as_real(vh), upright(middle))));
}

// Values and vectors concatenated in one row per matrix, returned as a single result: [B, 2 n + 2 n n].
struct Eig {
  static constexpr auto name = "eig";
  static constexpr Dtype cast_inputs = f32;
  static EigResult unpack(const Tensor& packed, std::int64_t n) {
    return {reshape(slice(packed, 1, 0, 2 * n), {packed.size(0), n, 2}),
            reshape(slice(packed, 1, 2 * n), {packed.size(0), n, n, 2})};
  }
  Tensor forward(Saved& saved, const Tensor& a) const {
    linalg::check_precise(name, a);
    const EigResult r = by_kernel(name, a, true);
    const Tensor y = cat({flatten(r.values, 1), flatten(r.vectors, 1)}, 1);
    saved.save({a, y});
    return y;
  }
  std::vector<Tensor> backward(const Saved& saved, const Tensor& g) const {
    const std::int64_t n = saved[0].size(1);
    const EigResult r = unpack(grad_enabled() ? apply_function(Eig{}, saved[0]) : saved[1], n), d = unpack(g, n);
    return {gradient_of(r, d.values, d.vectors)};
  }
};
struct Eigvals {
  static constexpr auto name = "eigvals";
  static constexpr Dtype cast_inputs = f32;
  bool with_vectors = true;  // needed for a gradient
  Tensor forward(Saved& saved, const Tensor& a) const {
    linalg::check_precise(name, a);
    const EigResult r = by_kernel(name, a, with_vectors);
    if (with_vectors) saved.save({a, r.values, r.vectors});
    return r.values;
  }
  std::vector<Tensor> backward(const Saved& saved, const Tensor& g) const {
    return {gradient_of(grad_enabled() ? eig(saved[0]) : EigResult{saved[1], saved[2]}, g, {})};
  }
};

// Compares only what does not depend on order, phase or sign.
void eig_samples(Samples& s) {
  const auto f = [](const Tensors& x) {
    const EigResult r = eig(x[0]);
    const Tensor lengths = sum(square(r.vectors), {-1});  // [..., n, n]
    const Tensor re = real(r.values), im = imag(r.values);
    return Tensors{sum(re * re * re + 0.3 * im * im, {-1}), sum(lengths * unsqueeze(exp(0.3 * re), -2), {-1})};
  };
  for (const Dims& sizes : {Dims{3, 3}, Dims{2, 4, 4}}) s.call({s.randn(sizes)}, f);
  s.error_call(
      {s.randn({2, 3})}, [](const Tensors& x) { return eig(x[0]).values; }, "eig: needs square matrices");
}
void eigvals_samples(Samples& s) {
  const auto f = [](const Tensors& x) {
    const Tensor values = eigvals(x[0]), re = real(values), im = imag(values);
    return Tensors{sum(re * re * re, {-1}), sum(exp(0.3 * re) * cos(im), {-1})};
  };
  for (const Dims& sizes : {Dims{3, 3}, Dims{2, 4, 4}}) s.call({s.randn(sizes)}, f);
  s.error_call(
      {s.randn({2, 3})}, [](const Tensors& x) { return eigvals(x[0]); }, "eigvals: needs square matrices");
}
MANTISSA_COMPOSITE(eig, eig_samples, .halves = false)
MANTISSA_COMPOSITE(eigvals, eigvals_samples, .halves = false)

}  // namespace

EigResult eig(const Tensor& a) {
  linalg::check_square("eig", a);
  const std::int64_t n = a.size(-1);
  const EigResult r = Eig::unpack(apply_function(Eig{}, linalg::as_batch(a)), n);
  return {reshape(r.values, linalg::batch_and(a, {n, 2})), reshape(r.vectors, linalg::batch_and(a, {n, n, 2}))};
}
Tensor eigvals(const Tensor& a) {
  linalg::check_square("eigvals", a);
  const Eigvals op{a.requires_grad() && grad_enabled()};
  return reshape(apply_function(op, linalg::as_batch(a)), linalg::batch_and(a, {a.size(-1), 2}));
}

}  // namespace mantissa
