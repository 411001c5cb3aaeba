// Tensor: a shared handle to a strided array. Copying a Tensor copies the handle; clone() copies
// the elements. Views (transpose, slice, ...) share storage. Images are [N, C, H, W] whatever their layout in memory.
//
// There is no second "variable" type. A tensor that takes part in differentiation holds one pointer to its autograd
// node: for a parameter a LeafNode, which owns the gradient; otherwise the node of the operator that made it
// (autograd/node.h).
//
// This header has no arithmetic: the catalogue of operators is core/ops.h.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/device.h"
#include "core/dims.h"
#include "core/dtype.h"
#include "core/error.h"
#include "core/layout.h"
#include "core/ref.h"
#include "core/storage.h"

namespace mantissa {

class Tensor;
struct ValuesIndices;  // core/ops.h

namespace autograd {
class Node;  // autograd/node.h
void retain(Node*) noexcept;
void release(Node*) noexcept;

class NodeRef {  // a shared pointer to a Node, which may be an incomplete type here
 public:
  NodeRef() = default;
  explicit NodeRef(Node* n) : n_(n) { if (n_) retain(n_); }
  NodeRef(const NodeRef& o) : NodeRef(o.n_) {}
  NodeRef(NodeRef&& o) noexcept : n_(std::exchange(o.n_, nullptr)) {}
  ~NodeRef() { if (n_) release(n_); }
  NodeRef& operator=(NodeRef o) noexcept { std::swap(n_, o.n_); return *this; }
  Node* get() const { return n_; }
  Node* operator->() const { return n_; }
  explicit operator bool() const { return n_ != nullptr; }

 private:
  Node* n_ = nullptr;
};
}  // namespace autograd

// Everything that a kernel sees of a tensor. `data` is null for an absent optional argument.
struct View {
  void* data = nullptr;
  Dims sizes;
  Dims strides;  // in elements
  Dtype dtype = f32;
  Device device;
  bool weak_scalar = false;  // a Python-style scalar, see TensorImpl

  template <class T> T* as() const { return static_cast<T*>(data); }
  explicit operator bool() const { return data != nullptr; }
  int dim() const { return sizes.rank(); }
  std::int64_t size(int d) const { return sizes[d]; }
  std::int64_t numel() const { return numel_of(sizes); }
  bool is_contiguous() const { return mantissa::is_contiguous(sizes, strides); }
  Layout layout() const { return layout_of(sizes, strides); }
};

struct TensorImpl final : RefCounted, Pooled<TensorImpl> {
  static void destroy(TensorImpl* t) { delete t; }
  Ref<Storage> storage;
  void* data = nullptr;  // the first element: storage plus offset
  Dims sizes;
  Dims strides;
  Dtype dtype = f32;
  Device device;
  // a Python-style scalar (f64, i64 or bool): adopts the dtype of the tensor it is combined with
  bool weak_scalar = false;
  autograd::NodeRef node;    // null if no gradient is required
};

// A dtype that may be left open: then it is f32, or what the arguments of tensor(), arange(), randint() and randperm()
// suggest, as in PyTorch.
class DtypeChoice {
 public:
  constexpr DtypeChoice() = default;
  constexpr DtypeChoice(Dtype dtype) : dtype_(dtype), open_(false) {}
  constexpr operator Dtype() const { return dtype_; }
  constexpr Dtype or_else(Dtype suggested) const { return open_ ? suggested : dtype_; }

 private:
  Dtype dtype_ = f32;
  bool open_ = true;
};
struct TensorOptions {
  DtypeChoice dtype = {};
  Device device = cpu;
  bool requires_grad = false;
};

// The reduction of core/ops.h; used as an index it means a whole dimension, as `:` does in Python.
Tensor all(const Tensor& x, const Dims& dims, bool keepdim);

// Indexing. x[3], x[{all, slice(1, 5)}], x[{ellipsis, newaxis, 0}]; negative numbers count from the
// end. An integer drops its dimension. slice(1, {}, 2) is 1::2. A view, unless there are tensors: x[{rows, columns}],
// x[{all, mask}] (core/indexing.h).
struct Index {
  enum Kind : std::uint8_t { integer, range, axis, rest };
  Kind kind;
  std::int64_t begin = 0, end = INT64_MAX, step = 1;
  Index(std::int64_t i) : kind(integer), begin(i) {}
  Index(int i) : kind(integer), begin(i) {}
  constexpr Index(Tensor (*)(const Tensor&, const Dims&, bool)) : kind(range) {}  // `all`
  constexpr Index(Kind k, std::int64_t b, std::int64_t e, std::int64_t s)
      : kind(k), begin(b), end(e), step(s) {}
};
inline Index slice(std::int64_t begin, std::optional<std::int64_t> end = {}, std::int64_t step = 1) {
  return {Index::range, begin, end.value_or(INT64_MAX), step};
}
class AnyIndex;
inline constexpr Index newaxis{Index::axis, 0, 0, 1};
inline constexpr Index ellipsis{Index::rest, 0, 0, 1};

class Tensor {
 public:
  Tensor() = default;  // undefined: an absent argument, or a gradient that does not exist
  // A 0-d Python-style scalar: adopts the dtype of the tensor it is combined with. Two scalars: integer with double
  // gives f32, bool with integer i64.
  explicit Tensor(double number);
  template <std::integral T> explicit Tensor(T number)
      : Tensor(of_integer(static_cast<std::int64_t>(number), std::same_as<T, bool> ? boolean : i64)) {}
  explicit Tensor(Ref<TensorImpl> impl) : impl_(std::move(impl)) {}
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  Tensor& operator=(const Tensor&) & = default;  // rebinds this handle, as in Python; copies no elements
  Tensor& operator=(Tensor&&) & noexcept = default;
  // x[0] = y would rebind the temporary handle that x[0] returns and leave x unchanged, so it does not compile.
  template <class T> void operator=(const T&) && {
    static_assert(!std::same_as<T, T>,
                  "x[...] = y does not write into x: write x[...].copy_(y), x[...].fill_(number) or, for masks and "
                  "tensors of indices, index_put_(x, {...}, y); masked_fill and where give tensors of their own. "
                  "x.grad() = y is x.set_grad(y)");
  }
  // An uninitialised, dense tensor.
  static Tensor allocate(const Dims& sizes, Dtype dtype, Device device = cpu, Layout layout = Layout::contiguous);
  // Any view of the same storage, `offset` elements after this tensor's first. Like as_strided() below, but never
  // recorded by autograd: for operators that make views, and for writing into elements.
  Tensor raw_view(const Dims& sizes, const Dims& strides, std::int64_t offset = 0) const;

  bool defined() const { return static_cast<bool>(impl_); }
  // As in Python: whether the only element is nonzero. Waits for the device. Throws for an undefined tensor
  // (test that with defined()) and unless there is exactly one element (reduce with any() or all() first).
  explicit operator bool() const { return truth(); }
  bool is_same(const Tensor& o) const { return impl_ == o.impl_; }

  int dim() const { return self().sizes.rank(); }
  const Dims& sizes() const { return self().sizes; }
  // All of them by name: auto [batch, channels, height, width] = x.sizes<4>(). Throws for another number of dimensions.
  template <int N> std::array<std::int64_t, N> sizes() const {
    if (dim() != N) fail_dimensions(N);
    return [&]<int... d>(std::integer_sequence<int, d...>) {
      return std::array<std::int64_t, N>{sizes()[d]...};
    }(std::make_integer_sequence<int, N>());
  }
  const Dims& strides() const { return self().strides; }
  std::int64_t size(std::int64_t d) const { return self().sizes[wrap_dim(d, dim())]; }
  std::int64_t stride(std::int64_t d) const { return self().strides[wrap_dim(d, dim())]; }
  std::int64_t numel() const { return numel_of(self().sizes); }
  std::int64_t nbytes() const { return numel() * static_cast<std::int64_t>(size_of(dtype())); }
  Dtype dtype() const { return self().dtype; }
  Device device() const { return self().device; }
  bool is_floating() const { return mantissa::is_floating(dtype()); }
  bool is_contiguous() const { return mantissa::is_contiguous(self().sizes, self().strides); }
  Layout layout() const { return layout_of(self().sizes, self().strides); }
  bool is_weak_scalar() const { return self().weak_scalar; }
  const Ref<Storage>& storage() const { return self().storage; }
  TensorImpl* impl() const { return impl_.get(); }
  const Ref<TensorImpl>& ref() const { return impl_; }
  View view() const;  // undefined gives an empty View

  // Pointer to the first element; T must equal dtype(), else throws. Elements are strided by strides().
  template <class T> T* data() const { return static_cast<T*>(checked_data(dtype_of<T>)); }
  void* raw_data() const { return self().data; }
  // The only element, converted to T (to an integer: saturated, NaN gives 0). Waits for the device. Throws for an
  // undefined tensor and unless there is exactly one element.
  template <class T = float> T item() const {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) return static_cast<T>(item_as_integer());
    else return static_cast<T>(item_as_double());
  }
  // A row-major copy, converted to T: the C++ type of a dtype (float, std::int64_t, ...).
  template <class T> requires requires { DtypeOf<T>::value; }
  std::vector<T> to_vector() const;

  // --- autograd (autograd/backward.h has the engine) ---
  bool requires_grad() const { return defined() && static_cast<bool>(impl_->node); }
  Tensor& requires_grad_(bool on = true);  // leaves only; floating dtypes only. false: drops the gradient and hooks
  bool is_leaf() const;
  Tensor grad() const;             // undefined until backward has reached this leaf
  void set_grad(const Tensor& g);  // undefined clears it
  void backward(const Tensor& gradient = {}, bool retain_graph = false, bool create_graph = false) const;
  Tensor detach() const;  // shares storage, takes no part in differentiation
  // Calls `hook(gradient)` in backward; a defined result replaces the gradient.
  template <class F> void on_grad(F hook) const;  // autograd/hooks.h

  // --- in place. Never recorded, so a tensor that requires a gradient allows them only under NoGrad. Operands may
  // overlap the destination, as in x.sub_(x[0]). For any other function f write x.copy_(f(x)) ---
  Tensor& copy_(const Tensor& source);  // broadcasts and converts
  Tensor& fill_(double value);
  Tensor& zero_() { return fill_(0); }
  Tensor& add_(const Tensor& other, double alpha = 1);
  Tensor& add_(double number) { return add_(Tensor(number)); }
  Tensor& sub_(const Tensor& other) { return add_(other, -1); }
  Tensor& sub_(double number) { return add_(Tensor(-number)); }
  Tensor& mul_(const Tensor& other);
  Tensor& mul_(double factor);
  Tensor& div_(const Tensor& other);  // div_, lerp_, addcmul_ and addcdiv_ need floating tensors
  Tensor& div_(double divisor) { return div_(Tensor(divisor)); }
  Tensor& clamp_(double low, double high);
  Tensor& lerp_(const Tensor& end, const Tensor& weight);  // x + weight * (end - x)
  Tensor& lerp_(const Tensor& end, double weight) { return lerp_(end, Tensor(weight)); }
  Tensor& addcmul_(const Tensor& a, const Tensor& b, double value = 1);  // x + value * a * b
  Tensor& addcdiv_(const Tensor& a, const Tensor& b, double value = 1);  // x + value * a / b
  Tensor& masked_fill_(const Tensor& mask, double value);  // where the bool mask, which broadcasts, is true

  // --- shorthands for core/ops.h ---
  Tensor operator[](std::int64_t i) const;
  Tensor operator[](std::initializer_list<AnyIndex> index) const;
  // index(x, {index}), a copy: rows selected by i64 indices (negative ones count from the end) or by a bool mask.
  template <std::derived_from<Tensor> T> Tensor operator[](const T& index) const { return at(index); }
  Tensor to(Dtype dtype) const;
  Tensor to(Device device) const;
  Tensor contiguous() const;
  Tensor clone() const;
  Tensor reshape(const Dims& shape) const;
  // Same as reshape: copies where PyTorch's view would throw, since a convolution's result may be channels-last.
  Tensor view(const Dims& shape) const { return reshape(shape); }
  Tensor view_as(const Tensor& other) const { return reshape(other.sizes()); }
  // Sizes, dimension orders etc. without braces: x.view(3, -1), x.permute(1, 0).
  template <std::integral... T> Tensor reshape(T... sizes) const { return reshape(dims_of(sizes...)); }
  template <std::integral... T> Tensor view(T... sizes) const { return reshape(dims_of(sizes...)); }
  template <std::integral... T> Tensor permute(T... order) const { return permute(dims_of(order...)); }
  template <std::integral... T> Tensor expand(T... sizes) const { return expand(dims_of(sizes...)); }
  template <std::integral... T> Tensor repeat(T... repeats) const { return repeat(dims_of(repeats...)); }
  Tensor flatten(int start = 0, int end = -1) const;
  Tensor unflatten(int dim, const Dims& sizes) const;
  Tensor transpose(int a, int b) const;
  Tensor t() const;   // matrices only
  Tensor mT() const;  // the last two dims swapped
  Tensor permute(const Dims& order) const;
  Tensor unsqueeze(int dim) const;
  Tensor squeeze() const;
  Tensor squeeze(int dim) const;
  Tensor expand(const Dims& shape) const;
  Tensor expand_as(const Tensor& other) const { return expand(other.sizes()); }
  Tensor slice(int dim, std::int64_t begin, std::optional<std::int64_t> end = {}, std::int64_t step = 1) const;
  Tensor select(int dim, std::int64_t index) const;
  Tensor narrow(int dim, std::int64_t start, std::int64_t length) const;
  Tensor repeat(const Dims& repeats) const;
  Tensor repeat_interleave(std::int64_t repeats, int dim) const;
  Tensor flip(const Dims& dims) const;
  Tensor roll(const Dims& shifts, const Dims& dims = {}) const;
  Tensor tril(std::int64_t diagonal = 0) const;
  Tensor triu(std::int64_t diagonal = 0) const;
  Tensor diagonal(std::int64_t offset = 0, int dim1 = 0, int dim2 = 1) const;
  // A view with these sizes and strides, `offset` elements after this tensor's first
  // (PyTorch: after the storage's first). Elements may overlap in memory; their gradients are summed. Elements of the
  // storage outside this tensor get no gradient. Throws if the view would exceed the storage.
  Tensor as_strided(const Dims& sizes, const Dims& strides, std::int64_t offset = 0) const;
  Tensor gather(int dim, const Tensor& index) const;
  Tensor index_select(int dim, const Tensor& index) const;
  Tensor index_add(int dim, const Tensor& index, const Tensor& source, double alpha = 1) const;
  Tensor scatter(int dim, const Tensor& index, const Tensor& source) const;
  Tensor scatter(int dim, const Tensor& index, double value) const;
  Tensor scatter_add(int dim, const Tensor& index, const Tensor& source) const;
  Tensor masked_select(const Tensor& mask) const;
  Tensor nonzero() const;
  std::vector<Tensor> split(std::int64_t size, int dim = 0) const;
  std::vector<Tensor> chunk(std::int64_t chunks, int dim = 0) const;
  std::vector<Tensor> unbind(int dim = 0) const;
  // The same bound to names (core/unpack.h): auto [scale, shift] = x.chunk<2>(-1); any other number is an error.
  template <std::size_t N> std::array<Tensor, N> split(std::int64_t size, int dim = 0) const;
  template <std::size_t N> std::array<Tensor, N> chunk(int dim = 0) const;
  template <std::size_t N> std::array<Tensor, N> unbind(int dim = 0) const;
  Tensor sum(const Dims& dims = {}, bool keepdim = false) const;  // empty dims: all dimensions
  Tensor mean(const Dims& dims = {}, bool keepdim = false) const;
  Tensor amax(const Dims& dims = {}, bool keepdim = false) const;
  Tensor amin(const Dims& dims = {}, bool keepdim = false) const;
  Tensor var(const Dims& dims = {}, bool keepdim = false, int correction = 1) const;
  Tensor std(const Dims& dims = {}, bool keepdim = false, int correction = 1) const;
  Tensor norm(double p = 2, const Dims& dims = {}, bool keepdim = false) const;
  Tensor prod(const Dims& dims = {}, bool keepdim = false) const;
  Tensor logsumexp(const Dims& dims = {}, bool keepdim = false) const;
  Tensor cumsum(int dim) const;
  Tensor cumprod(int dim) const;
  Tensor max() const;
  Tensor min() const;
  ValuesIndices max(int dim, bool keepdim = false) const;
  ValuesIndices min(int dim, bool keepdim = false) const;
  ValuesIndices topk(std::int64_t k, int dim = -1) const;
  ValuesIndices sort(int dim = -1, bool descending = false) const;
  Tensor argsort(int dim = -1, bool descending = false) const;
  Tensor argmax() const;  // index into the flattened tensor, row-major
  Tensor argmin() const;
  Tensor argmax(int dim, bool keepdim = false) const;
  Tensor argmin(int dim, bool keepdim = false) const;
  Tensor eq(const Tensor& other) const;
  Tensor eq(double number) const { return eq(Tensor(number)); }
  Tensor any(const Dims& dims = {}, bool keepdim = false) const;
  Tensor all(const Dims& dims = {}, bool keepdim = false) const;
  Tensor softmax(int dim) const;
  Tensor log_softmax(int dim) const;
  Tensor matmul(const Tensor& other) const;
  Tensor mm(const Tensor& other) const;   // two matrices
  Tensor bmm(const Tensor& other) const;  // two batches of matrices
  Tensor dot(const Tensor& other) const;  // two vectors
  Tensor masked_fill(const Tensor& mask, double value) const;
  Tensor exp() const;
  Tensor log() const;
  Tensor log1p() const;
  Tensor sqrt() const;
  Tensor rsqrt() const;
  Tensor abs() const;
  Tensor neg() const;
  Tensor sign() const;
  Tensor floor() const;
  Tensor ceil() const;
  Tensor round() const;
  Tensor isnan() const;
  Tensor pow(double exponent) const;
  Tensor square() const;
  Tensor sin() const;
  Tensor cos() const;
  Tensor relu() const;
  Tensor sigmoid() const;
  Tensor tanh() const;
  Tensor clamp(double low, double high = std::numeric_limits<double>::infinity()) const;
  // New tensors of the given sizes, with this tensor's dtype and device.
  Tensor new_zeros(const Dims& sizes) const;
  Tensor new_ones(const Dims& sizes) const;
  Tensor new_full(const Dims& sizes, double value) const;
  Tensor new_empty(const Dims& sizes) const;

 private:
  template <class... T> static Dims dims_of(T... n) { return {static_cast<std::int64_t>(n)...}; }
  Tensor at(const Tensor& index) const;
  static Tensor of_integer(std::int64_t number, Dtype dtype);
  void* checked_data(Dtype expected) const;
  bool truth() const;
  double item_as_double() const;
  std::int64_t item_as_integer() const;
  const TensorImpl& self() const {
    if (!impl_) [[unlikely]] fail_undefined();
    return *impl_;
  }
  [[noreturn]] static void fail_undefined();
  [[noreturn]] void fail_dimensions(int asked) const;

  Ref<TensorImpl> impl_;
};

// --- factories -------------------------------------------------------------------------------
Tensor empty(const Dims& sizes, TensorOptions = {});
Tensor zeros(const Dims& sizes, TensorOptions = {});
Tensor ones(const Dims& sizes, TensorOptions = {});
Tensor full(const Dims& sizes, double value, TensorOptions = {});
Tensor zeros_like(const Tensor&);
Tensor ones_like(const Tensor&);
Tensor empty_like(const Tensor&);  // same sizes, dtype, device and layout
// [begin, end) in steps of `step`, which may be negative. i64 by default, also for arguments of type double: fractional
// values are an error unless the dtype is floating.
Tensor arange(double begin, double end, double step = 1, TensorOptions = {});
Tensor arange(std::int64_t end, TensorOptions = {});
Tensor linspace(double begin, double end, std::int64_t count, TensorOptions = {});  // both ends included
Tensor eye(std::int64_t n, TensorOptions = {});
Tensor scalar(double value, TensorOptions = {});  // 0-d
// Copies row-major values to a CPU tensor of dtype T. Throws unless their count is the product of `sizes`.
template <class T> Tensor from_data(std::span<const T> values, const Dims& sizes);
template <class T> Tensor from_data(const std::vector<T>& values, const Dims& sizes) {
  return from_data<T>(std::span<const T>(values), sizes);
}
namespace detail {
// A number in a list of mixed types, such as {1, 2.5}. A class rather than double, so that lists of a single type
// prefer the templates below: clang finds a call with nested initializer_lists of int and of double ambiguous.
struct Listed {
  template <class T> requires std::same_as<T, int> || std::floating_point<T>
  constexpr Listed(T number) : value(static_cast<double>(number)) {}
  constexpr operator double() const { return value; }
  double value;
};
template <class T> concept ListedAlone = std::same_as<T, int> || std::same_as<T, std::int64_t> ||
                                         std::same_as<T, bool> || std::same_as<T, float> || std::same_as<T, double>;
template <ListedAlone T>
inline constexpr Dtype listed_dtype = std::floating_point<T> ? f32 : std::same_as<T, bool> ? boolean : i64;
}  // namespace detail
// tensor({1, 2, 3}) is i64, tensor({1.5, 2}) is f32, tensor({true}) is boolean, as in PyTorch. Up to two levels of
// braces.
template <detail::ListedAlone T>
Tensor tensor(std::initializer_list<T> values, TensorOptions = {});
Tensor tensor(std::initializer_list<detail::Listed> values, TensorOptions = {});
template <detail::ListedAlone T>
Tensor tensor(std::initializer_list<std::initializer_list<T>> rows, TensorOptions = {});
Tensor tensor(std::initializer_list<std::initializer_list<detail::Listed>> rows, TensorOptions = {});

// One entry of x[{...}]: a number, `all`, slice(...), newaxis, ellipsis, or a tensor of indices or a mask.
class AnyIndex {
 public:
  AnyIndex(const Index& i) : plain_(i) {}
  AnyIndex(int i) : plain_(i) {}
  AnyIndex(std::int64_t i) : plain_(i) {}
  AnyIndex(Tensor (*whole)(const Tensor&, const Dims&, bool)) : plain_(whole) {}  // `all`
  AnyIndex(const Tensor& t) : plain_(0), tensor_(t), is_tensor_(true) {}

  bool is_tensor() const { return is_tensor_; }
  const Tensor& tensor() const { return tensor_; }
  const Index& plain() const { return plain_; }

 private:
  Index plain_;
  Tensor tensor_;
  bool is_tensor_ = false;
};

// Printed as in PyTorch: tensor([[ 1.0000, -2.5000], ...], dtype=f16). Long tensors are summarised.
std::ostream& operator<<(std::ostream&, const Tensor&);
std::string to_string(const Tensor&);
std::string describe(const Tensor&);  // "f16[128, 784] cuda:0": how errors name a tensor
// Pass the tensor itself to check() and fail(): it is described only if the check fails.
void append_part(std::string&, const Tensor&);

}  // namespace mantissa
