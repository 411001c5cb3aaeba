// Zero-copy exchange of tensors with other libraries, as torch.utils.dlpack: the structs of DLPack 1.0, and the
// unversioned ones (v0.8). Their memory layout is that of <dlpack/dlpack.h>, which need not be installed.
//
//   auto* lent = reinterpret_cast<DLManagedTensor*>(to_dlpack(x));                  // lent->deleter(lent) returns it
//   Tensor y = from_dlpack(reinterpret_cast<dlpack::ManagedTensor*>(of_another));   // takes it over
//
// Each side sees what the other writes. In Python a capsule named "dltensor" holds the unversioned struct,
// "dltensor_versioned" the other.
#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace mantissa {
namespace dlpack {

enum DeviceType : std::int32_t { device_cpu = 1, device_cuda = 2, device_cuda_host = 3, device_cuda_managed = 13 };
enum TypeCode : std::uint8_t { code_int = 0, code_uint = 1, code_float = 2, code_bfloat = 4, code_bool = 6 };
struct Device {
  std::int32_t type;  // a DeviceType, or an unknown one
  std::int32_t id;
};
struct DataType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};
struct Array {  // DLTensor
  void* data;
  Device device;
  std::int32_t ndim;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null: row-major
  std::uint64_t byte_offset;
};
struct ManagedTensor {  // DLManagedTensor
  Array array;
  void* manager;
  void (*deleter)(ManagedTensor*);  // may be null
};
struct Version {
  std::uint32_t major, minor;
};
struct ManagedTensorVersioned {  // DLManagedTensorVersioned
  Version version;
  void* manager;
  void (*deleter)(ManagedTensorVersioned*);
  std::uint64_t flags;
  Array array;
};
inline constexpr std::uint64_t flag_read_only = 1, flag_is_copied = 2;

static_assert(sizeof(void*) != 8 ||
                  (sizeof(Array) == 48 && sizeof(ManagedTensor) == 64 && sizeof(ManagedTensorVersioned) == 80),
              "the layout that everybody has agreed on");

}  // namespace dlpack

// x's memory, kept alive until the deleter is called, by any thread. Waits for pending device work on it. Error for a
// tensor that requires a gradient, as autograd would not notice writes: pass x.detach().
dlpack::ManagedTensor* to_dlpack(const Tensor& x);
dlpack::ManagedTensorVersioned* to_dlpack_versioned(const Tensor& x);

// A tensor over that memory; the deleter is called once, when the last tensor over it is destroyed. Pending device
// writes to it must be complete. If an error is thrown, the caller keeps ownership. Errors: unsupported dtypes
// (complex, signed 8-bit integers, several lanes), negative strides, more than 8 dimensions, devices other than CPU and
// CUDA, memory not aligned to elements; another major version. Memory marked read-only must not be written to: this is
// not checked.
Tensor from_dlpack(dlpack::ManagedTensor* managed);
Tensor from_dlpack(dlpack::ManagedTensorVersioned* managed);

}  // namespace mantissa
