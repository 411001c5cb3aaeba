#include "core/dlpack.h"

#include "core/device.h"
#include "core/from_blob.h"

namespace mantissa {
namespace {

using dlpack::Array;

struct TypePair {
  Dtype dtype;
  dlpack::TypeCode code;
  std::uint8_t bits;
};
constexpr TypePair types[] = {{f64, dlpack::code_float, 64}, {f32, dlpack::code_float, 32},
                              {f16, dlpack::code_float, 16}, {bf16, dlpack::code_bfloat, 16},
                              {i64, dlpack::code_int, 64},   {i32, dlpack::code_int, 32},
                              {u8, dlpack::code_uint, 8},    {boolean, dlpack::code_bool, 8}};

dlpack::DataType type_of(Dtype dtype) {
  for (const TypePair& t : types)
    if (t.dtype == dtype) return {t.code, t.bits, 1};
  fail("to_dlpack: DLPack has no ", dtype);
}
Dtype dtype_of(const dlpack::DataType& given) {
  for (const TypePair& t : types)
    if (given.lanes == 1 && t.code == given.code && t.bits == given.bits) return t.dtype;
  fail("from_dlpack: no dtype here has type code ", static_cast<int>(given.code), ", ", static_cast<int>(given.bits),
       " bits and ", static_cast<int>(given.lanes), " lanes");
}
Device device_of(const dlpack::Device& given) {
  if (given.type == dlpack::device_cpu || given.type == dlpack::device_cuda_host) return cpu;
  check(given.type == dlpack::device_cuda || given.type == dlpack::device_cuda_managed,
        "from_dlpack: memory of devices of type ", given.type,
        " cannot be used here, only that of CPUs (1) and CUDA (2)");
  check(given.id >= 0 && given.id < cuda_device_count(), "from_dlpack: there is no cuda:", given.id, " here, but ",
        cuda_device_count(), " CUDA devices");
  return cuda(given.id);
}

// --- export: the tensor and its sizes, in one allocation with the struct that is handed out ---
template <class Managed> struct Lent {
  Managed managed{};
  Tensor tensor;
  Dims sizes, strides;
};
template <class Managed> Managed* lend(const Tensor& x) {
  check(x.defined(), "to_dlpack: the tensor is undefined");
  check(!x.requires_grad(), "to_dlpack: ", x,
        " requires a gradient, which would not see what others write: give x.detach()");
  const dlpack::DataType type = type_of(x.dtype());
  if (!x.device().is_cpu()) synchronize(x.device());
  auto* lent = new Lent<Managed>{.tensor = x, .sizes = x.sizes(), .strides = x.strides()};
  const dlpack::Device device{x.device().is_cpu() ? dlpack::device_cpu : dlpack::device_cuda,
                              x.device().is_cpu() ? 0 : x.device().index};
  lent->managed.array = {x.raw_data(), device, x.dim(), type, lent->sizes.begin(), lent->strides.begin(), 0};
  lent->managed.manager = lent;
  lent->managed.deleter = [](Managed* m) { delete static_cast<Lent<Managed>*>(m->manager); };
  return &lent->managed;
}

// --- import ---
template <class Managed> Tensor take(Managed* managed) {
  const Array& array = managed->array;
  const Dtype dtype = dtype_of(array.dtype);
  const Device device = device_of(array.device);
  check(array.ndim >= 0 && array.ndim <= Dims::max_rank, "from_dlpack: a tensor has at most ", Dims::max_rank,
        " dimensions, got ", array.ndim);
  check(array.ndim == 0 || array.shape, "from_dlpack: ", array.ndim, " dimensions without a shape");
  Dims sizes, strides;
  for (int d = 0; d < array.ndim; ++d) {
    check(array.shape[d] >= 0, "from_dlpack: dimension ", d, " has the size ", array.shape[d]);
    sizes.push_back(array.shape[d]);
  }
  const std::int64_t count = checked_numel(sizes);
  if (array.strides && count > 0)
    for (int d = 0; d < array.ndim; ++d) strides.push_back(array.strides[d]);
  else strides = contiguous_strides(sizes);
  std::int64_t extent = count > 0 ? 1 : 0;  // elements from the first to the last
  for (int d = 0; count > 0 && d < array.ndim; ++d) {
    std::int64_t more;
    check(strides[d] >= 0, "from_dlpack: dimension ", d, " has the stride ", strides[d],
          "; negative ones do not exist here: copy it first");
    check(!__builtin_mul_overflow(strides[d], sizes[d] - 1, &more) && !__builtin_add_overflow(extent, more, &extent),
          "from_dlpack: sizes ", sizes, " with strides ", strides, " reach beyond all memory");
  }
  auto* const data = array.data ? static_cast<char*>(array.data) + array.byte_offset : nullptr;
  const auto release = [managed](void*) {
    if (managed->deleter) managed->deleter(managed);
  };
  return from_blob(data, {extent}, release, {.dtype = dtype, .device = device}).raw_view(sizes, strides);
}

}  // namespace

dlpack::ManagedTensor* to_dlpack(const Tensor& x) { return lend<dlpack::ManagedTensor>(x); }
dlpack::ManagedTensorVersioned* to_dlpack_versioned(const Tensor& x) {
  auto* const managed = lend<dlpack::ManagedTensorVersioned>(x);
  managed->version = {1, 0};
  return managed;
}

Tensor from_dlpack(dlpack::ManagedTensor* managed) {
  check(managed != nullptr, "from_dlpack: got a null pointer");
  return take(managed);
}
Tensor from_dlpack(dlpack::ManagedTensorVersioned* managed) {
  check(managed != nullptr, "from_dlpack: got a null pointer");
  check(managed->version.major == 1, "from_dlpack: version ", managed->version.major, ".", managed->version.minor,
        " of DLPack is not known, only 1.x");
  return take(managed);
}

}  // namespace mantissa
