// The parts of Tensor that need no operator: construction, views of storage, reading elements. Writing is in
// ops/in_place.cpp.
#include "core/tensor.h"

#include "core/context.h"
#include "core/from_blob.h"
#include "core/host_reads.h"
#include "core/kernel.h"
#include "core/parallel.h"
#include "core/profile.h"

namespace mantissa {

// y[...] = x[...], converting the dtype; x broadcasts to y.
MANTISSA_KERNEL(copy, const View& y, const View& x)

namespace {

thread_local bool thread_prepared = false;
thread_local std::uint64_t reads_made = 0;  // core/host_reads.h

Tensor make(Ref<Storage> storage, void* data, const Dims& sizes, const Dims& strides, Dtype dtype, Device device) {
  Ref<TensorImpl> t(new TensorImpl);
  t->storage = std::move(storage);
  t->data = data;
  t->sizes = sizes;
  t->strides = strides;
  t->dtype = dtype;
  t->device = device;
  return Tensor(std::move(t));
}

// Copies between host and device are done by the device's kernel.
void copy_elements(const View& y, const View& x) { kernels::copy(y.device.is_cpu() ? x.device : y.device, y, x); }

}  // namespace

Tensor Tensor::allocate(const Dims& sizes, Dtype dtype, Device device, Layout layout) {
  if (!thread_prepared) [[unlikely]] {
    thread_prepared = true;
    flush_denormals_in_this_thread();
  }
  Ref<Storage> storage = Storage::allocate(checked_nbytes(sizes, dtype), device);
  void* data = storage->data();
  return make(std::move(storage), data, sizes, dense_strides(sizes, layout), dtype, device);
}

void detail::check_memory(const void* data, const Dims& sizes, const TensorOptions& o) {
  const std::int64_t nbytes = checked_nbytes(sizes, o.dtype);
  check(data || nbytes == 0, "from_blob: no memory is given for the ", nbytes, " bytes of ", sizes);
  check(reinterpret_cast<std::uintptr_t>(data) % size_of(o.dtype) == 0,
        "from_blob: the memory is not aligned to elements of ", o.dtype);
  check(!o.requires_grad || is_floating(o.dtype), "from_blob: only floating tensors have gradients, this is ", o.dtype);
}
Tensor detail::over_memory(void* data, const Dims& sizes, TensorOptions o, void (*release)(void*), void* owner) {
  Tensor t = make(Storage::borrow(data, checked_nbytes(sizes, o.dtype), o.device, release, owner), data, sizes,
                  dense_strides(sizes, Layout::contiguous), o.dtype, o.device);
  if (o.requires_grad) t.requires_grad_();
  return t;
}

Tensor::Tensor(double number) : Tensor(allocate({}, f64)) {
  *static_cast<double*>(impl_->data) = number;
  impl_->weak_scalar = true;
}
Tensor Tensor::of_integer(std::int64_t number, Dtype dtype) {
  Tensor t = allocate({}, dtype);
  if (dtype == boolean) *static_cast<bool*>(t.impl_->data) = number != 0;
  else *static_cast<std::int64_t*>(t.impl_->data) = number;
  t.impl_->weak_scalar = true;
  return t;
}

Tensor Tensor::raw_view(const Dims& sizes, const Dims& strides, std::int64_t offset) const {
  check(sizes.rank() == strides.rank(), "as_strided: ", sizes, " and strides ", strides, " differ in rank");
  std::int64_t last = offset;  // offset of the last element
  bool overflow = offset < 0;
  for (int i = 0; i < sizes.rank(); ++i) {
    check(sizes[i] >= 0 && strides[i] >= 0, "as_strided: sizes ", sizes, " and strides ", strides,
          " must not be negative");
    std::int64_t reach = 0;
    overflow |= __builtin_mul_overflow(sizes[i] > 0 ? sizes[i] - 1 : 0, strides[i], &reach) ||
                __builtin_add_overflow(last, reach, &last);
  }
  const auto item = static_cast<std::int64_t>(size_of(dtype()));
  const std::int64_t begin = static_cast<const char*>(impl_->data) - static_cast<const char*>(impl_->storage->data());
  const bool is_empty = checked_numel(sizes) == 0;
  const bool fits = !overflow && (is_empty || last < (impl_->storage->nbytes() - begin) / item);
  check(fits, "as_strided: sizes ", sizes, " with strides ", strides, " at offset ", offset,
        " reach beyond the storage of ", *this);
  char* first = static_cast<char*>(impl_->data) + (is_empty ? 0 : offset * item);
  return make(impl_->storage, first, sizes, strides, dtype(), device());
}

Tensor Tensor::detach() const {
  const TensorImpl& t = self();
  return make(t.storage, t.data, t.sizes, t.strides, t.dtype, t.device);
}

View Tensor::view() const {
  if (!impl_) return {};
  return {impl_->data, impl_->sizes, impl_->strides, impl_->dtype, impl_->device, impl_->weak_scalar};
}

void* Tensor::checked_data(Dtype expected) const {
  check(defined() && dtype() == expected, "data<", expected, ">: the tensor is ",
        defined() ? std::string(name_of(dtype())) : std::string("undefined"), "; convert it with to(", expected, ")");
  return impl_->data;
}

void Tensor::fail_undefined() {
  fail(
      "an undefined tensor was used where a tensor is needed: one that was never given a value, or whose module was "
      "moved from");
}

std::uint64_t host_reads() { return reads_made; }

// Profiles work here that is not an operator.
static ProfileRange profiled(const char* name, const Tensor& t) {
  return ProfileRange(ProfileKind::op, name, &t);
}

bool Tensor::truth() const {
  check(defined(), "a condition: the tensor is undefined; whether there is one says defined()");
  check(numel() == 1, "a condition: ", *this,
        " has not one element; use any() or all(), and for masks ~ & | instead of ! && ||");
  return item_as_double() != 0;
}
void Tensor::fail_dimensions(int asked) const {
  fail("sizes<", asked, ">(): ", *this, " has ", dim(), dim() == 1 ? " dimension" : " dimensions");
}
double Tensor::item_as_double() const {
  check(defined(), "item: the tensor is undefined");
  check(numel() == 1, "item: needs a tensor of one element, got ", *this);
  const ProfileRange range = profiled("item", *this);
  ++reads_made;
  if (!device().is_cpu()) {
    double value = 0;
    copy_elements(View{&value, sizes(), strides(), f64, cpu}, view());
    return value;
  }
  return visit(dtype(), [&]<class T> { return static_cast<double>(*static_cast<const T*>(impl_->data)); });
}
std::int64_t Tensor::item_as_integer() const {
  check(defined(), "item: the tensor is undefined");
  check(numel() == 1, "item: needs a tensor of one element, got ", *this);
  const ProfileRange range = profiled("item", *this);
  ++reads_made;
  std::int64_t value = 0;
  copy_elements(View{&value, sizes(), strides(), i64, cpu}, view());  // saturates, NaN gives 0
  return value;
}

template <class T> requires requires { DtypeOf<T>::value; }
std::vector<T> Tensor::to_vector() const {
  const ProfileRange range = profiled("to_vector", *this);
  ++reads_made;
  const Tensor dense = Tensor::allocate(sizes(), dtype_of<T>);
  copy_elements(dense.view(), view());
  const T* p = static_cast<const T*>(dense.raw_data());
  return std::vector<T>(p, p + numel());
}
#define MANTISSA_X(name, type) template std::vector<type> Tensor::to_vector() const;
MANTISSA_DTYPES(MANTISSA_X)
#undef MANTISSA_X

void append_part(std::string& s, const Tensor& t) { s += describe(t); }
std::string describe(const Tensor& t) {
  if (!t.defined()) return "undefined";
  if (t.is_weak_scalar()) return concat(t.item<double>());
  return concat(t.dtype(), t.sizes(), t.device().is_cpu() ? "" : " ",
                t.device().is_cpu() ? std::string() : concat(t.device()));
}

}  // namespace mantissa
