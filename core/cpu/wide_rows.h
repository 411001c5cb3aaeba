// Rows of a tensor as runs of the compute type, one at a time: in place, or, for f16 and bf16, widened into a buffer
// that stays in cache. So a kernel that reads a row several times reads memory once, and allocates no tensor.
#pragma once

#include "core/cpu/vectors.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {

// Widens n elements to `to`, which has their compute type.
template <class C> void widen_run(C* to, const void* data, Dtype dtype, std::int64_t start, std::int64_t n) {
  if constexpr (std::is_integral_v<C>) return load_run(to, data, dtype, start, 1, n);
  visit_floating(dtype, [&]<class T> {
    if constexpr (std::is_same_v<Compute<T>, C>) {
      const T* from = static_cast<const T*>(data) + start;
      for_vectors<C>(n, [&](const auto& lanes, std::int64_t j) { lanes.store(to + j, lanes.load(from + j)); });
    } else {
      load_run(to, data, dtype, start, 1, n);
    }
  });
}

// Absent tensors stay absent; those that are not contiguous are copied as a whole.
template <class C> class WideRows {
 public:
  explicit WideRows(const View& v) : data_(v.data), dtype_(v.dtype) {
    if (!v || v.is_contiguous()) return;
    copy_ = Tensor::allocate(v.sizes, v.dtype);
    copy(copy_.view(), v);
    data_ = copy_.raw_data();
  }
  // Elements [start, start + n); `buffer` must have room for n.
  const C* at(std::int64_t start, std::int64_t n, C* buffer) const {
    if (dtype_ == dtype_of<C>) return static_cast<const C*>(data_) + start;
    widen_run(buffer, data_, dtype_, start, n);
    return buffer;
  }

 private:
  Tensor copy_;
  void* data_;
  Dtype dtype_;
};

// The same for a result: write to at(start, buffer), then call put(start, n, the same buffer). finish() copies to the
// destination if a copy was needed.
template <class C> class WideResultRows {
 public:
  explicit WideResultRows(const View& v) : view_(v), data_(v.data) {
    if (!v || v.is_contiguous()) return;
    copy_ = Tensor::allocate(v.sizes, v.dtype);
    data_ = copy_.raw_data();
  }
  C* at(std::int64_t start, C* buffer) const {
    return view_.dtype == dtype_of<C> ? static_cast<C*>(data_) + start : buffer;
  }
  void put(std::int64_t start, std::int64_t n, const C* buffer) const {
    if (view_.dtype == dtype_of<C>) return;
    visit_floating(view_.dtype, [&]<class T> {
      if constexpr (std::is_same_v<Compute<T>, C>) {
        T* to = static_cast<T*>(data_) + start;
        for_vectors<C>(n, [&](const auto& lanes, std::int64_t j) { lanes.store(to + j, lanes.load(buffer + j)); });
      } else {
        store_run(data_, view_.dtype, start, 1, buffer, n);
      }
    });
  }
  // The same; then the buffer holds the rounded values.
  void put_rounded(std::int64_t start, std::int64_t n, C* buffer) const {
    if (view_.dtype == dtype_of<C>) return;
    put(start, n, buffer);
    widen_run(buffer, data_, view_.dtype, start, n);
  }
  void finish() const {
    if (copy_.defined()) copy(view_, copy_.view());
  }

 private:
  View view_;
  Tensor copy_;
  void* data_;
};

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
