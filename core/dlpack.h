// Tensors exchanged with other libraries without a copy, as torch.utils.dlpack: DLPack 1.0's structs, and those from
// before (v0.8), whose layout they share with <dlpack/dlpack.h>, which need not be installed.
//
//   auto* lent = reinterpret_cast<DLManagedTensor*>(to_dlpack(x));                  // lent->deleter(lent) returns it
//   Tensor y = from_dlpack(reinterpret_cast<dlpack::ManagedTensor*>(of_another));   // takes it over
//
// Either side sees what the other writes. In Python a capsule named "dltensor" holds the one, "dltensor_versioned" the
// other.
#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace mantissa {
namespace dlpack {

enum DeviceType : std::int32_t { device_cpu = 1, device_cuda = 2, device_cuda_host = 3, device_cuda_managed = 13 };
enum TypeCode : std::uint8_t { code_int = 0, code_uint = 1, code_float = 2, code_bfloat = 4, code_bool = 6 };
struct Device {
  std::int32_t type;  // a DeviceType, or one that we do not know
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

// x's memory, kept until the deleter is called, by any thread. Whatever the device still has to do with it is waited
// for. Error for a tensor that requires a gradient, which would not see what is written: give x.detach().
dlpack::ManagedTensor* to_dlpack(const Tensor& x);
dlpack::ManagedTensorVersioned* to_dlpack_versioned(const Tensor& x);

// A tensor over that memory, which is given back (by its deleter, once) when the last tensor that sees it is gone. What
// is written to it on a device must be complete. After an error it still is the caller's. Error for what no tensor is:
// other dtypes (complex, 8-bit integers with a sign, several lanes), negative strides, more than 8 dimensions, devices
// other than CPU and CUDA, memory not aligned to elements; versions of another major number. What is marked read-only
// must not be written to: nobody checks that.
Tensor from_dlpack(dlpack::ManagedTensor* managed);
Tensor from_dlpack(dlpack::ManagedTensorVersioned* managed);

}  // namespace mantissa
