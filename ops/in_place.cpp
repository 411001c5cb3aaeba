// In-place modification: the methods of Tensor whose names end in _.
#include <cmath>

#include "core/context.h"
#include "core/formula_recorder.h"
#include "core/kernel.h"
#include "core/ops.h"
#include "core/profile.h"
#include "ops/pointwise.h"

namespace mantissa {

// y[...] = x[...], converting the dtype; x broadcasts to y.
MANTISSA_KERNEL(copy, const View& y, const View& x)
MANTISSA_KERNEL(fill, const View& y, double value)
// y += alpha * x, in the compute dtype of y; x broadcasts and may have another dtype.
MANTISSA_KERNEL(add_in_place, const View& y, const View& x, double alpha)
MANTISSA_KERNEL(mul_in_place, const View& y, const View& x)

namespace {

ProfileRange profiled(const char* name, const Tensor& t) {
  return ProfileRange(ProfileKind::op, name, &t);
}
// In-place writes are never recorded, so a tensor that requires a gradient would lose it.
void check_writable(const Tensor& t, const char* op) {
  check(t.defined(), op, ": the tensor is undefined");
  check(!t.requires_grad() || !context().grad_enabled, op, ": ", t,
        " needs a gradient and in-place changes are not recorded; use the functional form, or a NoGrad scope");
  for (int d = 0; d < t.dim(); ++d) {
    check(t.strides()[d] != 0 || t.sizes()[d] <= 1, op, ": ", t,
          " is expanded: several of its elements are one in memory; write to a clone()");
  }
}
// Call after all checks, so that a refused write does not change the version.
View begin_write(const Tensor& t, const char* op) {
  t.storage()->written_by(op);
  return t.view();
}
bool broadcasts_to(const Dims& from, const Dims& to) {
  const int shift = to.rank() - from.rank();
  bool fits = shift >= 0;
  for (int i = 0; fits && i < from.rank(); ++i) fits = from[i] == 1 || from[i] == to[i + shift];
  return fits;
}
// For x[0].copy_(y), which must behave like Python's x[0] = y.
Tensor without_leading_ones(const Tensor& x, int rank) {
  Dims sizes = x.sizes(), strides = x.strides();
  while (sizes.rank() > rank && sizes[0] == 1) sizes.erase(0), strides.erase(0);
  return sizes.rank() == x.dim() ? x : x.raw_view(sizes, strides);
}
// Writes are not recorded: the gradient of a computed source would be lost, silently if the loss depends on the
// parameters in other ways too. Copying a parameter itself (a leaf) is common and allowed.
void check_unrecorded(const Tensor& source, const Tensor& written, const char* op) {
  check(source.is_leaf() || !context().grad_enabled, op, ": ", source,
        " was computed with a gradient, which writing it into ", written,
        " does not record; use index_put, where, cat or stack, or what the gradient is not wanted of, detach()");
}
// An operand must be on the device that is written to; a single number may come from the host.
void check_reads(const Tensor& other, const Tensor& written, const char* op) {
  check(other.defined(), op, ": the other tensor is undefined");
  check_unrecorded(other, written, op);
  const bool number = other.device().is_cpu() && other.numel() == 1;
  check(other.device() == written.device() || number, op, ": ", other, " is on ", other.device(), ", ", written,
        " on ", written.device(), "; move them together with to(device)");
  check(broadcasts_to(other.sizes(), written.sizes()), op, ": ", other, " does not broadcast to ", written);
}
// Copies an operand that shares memory with the result, as in x.sub_(x[0]), where it would be overwritten before it is
// read. Exactly the same elements, or disjoint slices, need no copy.
Tensor apart(const Tensor& other, const Tensor& written) {
  if (other.storage().get() != written.storage().get() || other.numel() == 0) return other;
  const View x = other.view(), y = written.view();
  if (x.data == y.data && x.sizes == y.sizes && x.strides == y.strides) return other;
  const auto end_of = [](const View& v) {
    std::int64_t last = 0;
    for (int d = 0; d < v.dim(); ++d) last += (v.sizes[d] - 1) * v.strides[d];
    return static_cast<const char*>(v.data) + (last + 1) * static_cast<std::int64_t>(size_of(v.dtype));
  };
  const bool meet = static_cast<const char*>(x.data) < end_of(y) && static_cast<const char*>(y.data) < end_of(x);
  return meet ? clone(other.detach()) : other;
}
// Integers cannot store fractions: 0.5 would become 0.
void check_keeps_integers(const Tensor& written, const Tensor& other, double alpha, const char* op) {
  if (written.is_floating()) return;
  const bool whole =
      std::trunc(alpha) == alpha &&
      (!other.is_floating() || (other.is_weak_scalar() && std::trunc(*other.data<double>()) == *other.data<double>()));
  check(whole, op, ": ", other, alpha == 1 ? "" : concat(" times ", alpha), " into ", written,
        " would lose its fractions; write x = ", op[0] == 'a' ? "x + y" : "x * y", ", or convert with to(f32)");
}
void check_floating(const Tensor& written, const char* op) {
  check(written.is_floating(), op, ": ", written, " would lose the fractions; convert with to(f32)");
}

// y = f(x...), in the compute dtype of y, which is one of x.
template <class F, class... T> Tensor& write(const char* op, const F& f, Tensor& y, const T&... x) {
  const ProfileRange range = profiled(op, y);
  check_writable(y, op);
  (check_reads(x, y, op), ...);
  const Tensor read[] = {apart(x, y)...};
  View views[sizeof...(T)];
  const View* list[sizeof...(T)];
  for (std::size_t k = 0; k < sizeof...(T); ++k) views[k] = read[k].view(), list[k] = &views[k];
  pointwise::run_formula<F>(f, compute_dtype(y.dtype()), begin_write(y, op), list);
  return y;
}

}  // namespace

Tensor& Tensor::copy_(const Tensor& source) {
  const ProfileRange range = profiled("copy_", *this);
  check_writable(*this, "copy_");
  check(source.defined(), "copy_: the source is undefined");
  check_unrecorded(source, *this, "copy_");
  const Tensor fitting = without_leading_ones(source, dim());
  check(broadcasts_to(fitting.sizes(), sizes()), "copy_: source ", source, " does not broadcast to ", *this);
  const Tensor x = apart(fitting, *this);
  const View y = begin_write(*this, "copy_");
  if (pointwise::formula_recorder) [[unlikely]] pointwise::formula_recorder->copy(y, x.view());
  kernels::copy(device().is_cpu() ? x.device() : device(), y, x.view());  // a GPU also copies from and to the host
  return *this;
}
Tensor& Tensor::fill_(double value) {
  const ProfileRange range = profiled("fill_", *this);
  check_writable(*this, "fill_");
  const View y = begin_write(*this, "fill_");
  if (pointwise::formula_recorder) [[unlikely]] pointwise::formula_recorder->fill(y, value);
  kernels::fill(device(), y, value);
  return *this;
}
Tensor& Tensor::add_(const Tensor& other, double alpha) {
  const ProfileRange range = profiled("add_", *this);
  check_writable(*this, "add_");
  check_reads(other, *this, "add_");
  check_keeps_integers(*this, other, alpha, "add_");
  const Tensor x = apart(other, *this);
  const View y = begin_write(*this, "add_");
  if (pointwise::formula_recorder) [[unlikely]] pointwise::formula_recorder->add_in_place(y, x.view(), alpha);
  kernels::add_in_place(device(), y, x.view(), alpha);
  return *this;
}
Tensor& Tensor::mul_(const Tensor& other) {
  const ProfileRange range = profiled("mul_", *this);
  check_writable(*this, "mul_");
  check_reads(other, *this, "mul_");
  check_keeps_integers(*this, other, 1, "mul_");
  const Tensor x = apart(other, *this);
  const View y = begin_write(*this, "mul_");
  if (pointwise::formula_recorder) [[unlikely]] pointwise::formula_recorder->mul_in_place(y, x.view());
  kernels::mul_in_place(device(), y, x.view());
  return *this;
}
Tensor& Tensor::mul_(double factor) { return mul_(Tensor(factor)); }
Tensor& Tensor::div_(const Tensor& other) {
  if (defined()) check_floating(*this, "div_");
  return write("div_", pointwise::Div{}, *this, *this, other);
}
Tensor& Tensor::clamp_(double low, double high) {
  const bool integers = defined() && !is_floating();
  check(!integers || pointwise::whole_bounds(low, high), "clamp_: ", *this, " between ", low, " and ", high,
        " would lose fractions; convert with to(f32)");
  return write("clamp_", pointwise::clamp_formula("clamp_", integers, low, high), *this, *this);
}
Tensor& Tensor::lerp_(const Tensor& end, const Tensor& weight) {
  if (defined()) check_floating(*this, "lerp_");
  return write("lerp_", pointwise::Lerp{}, *this, *this, end, weight);
}
Tensor& Tensor::addcmul_(const Tensor& a, const Tensor& b, double value) {
  if (defined()) check_floating(*this, "addcmul_");
  pointwise::Addcmul f;
  f.value = value;
  return write("addcmul_", f, *this, *this, a, b);
}
Tensor& Tensor::addcdiv_(const Tensor& a, const Tensor& b, double value) {
  if (defined()) check_floating(*this, "addcdiv_");
  pointwise::Addcdiv f;
  f.value = value;
  return write("addcdiv_", f, *this, *this, a, b);
}
Tensor& Tensor::masked_fill_(const Tensor& mask, double value) {
  check(mask.defined() && mask.dtype() == boolean, "masked_fill_: the mask must be bool, got ", mask);
  return write("masked_fill_", pointwise::Where{}, *this, mask, Tensor(value), *this);
}

}  // namespace mantissa
