// Quotient and remainder of a thread's index by a size that is the same for the whole launch: a multiplication if
// indices fit into 31 bits, otherwise a division.
#pragma once

#include "cuda/elementwise.cuh"

namespace mantissa::cuda_backend {

class Split {
 public:
  Split() = default;
  // `most`: the largest index that will be split.
  Split(std::int64_t size, std::int64_t most) : size_(size > 0 ? size : 1), small_(most < (std::int64_t{1} << 31)) {
    if (small_) divider_ = Divider(size_);
  }
  struct Parts { std::int64_t quotient, rest; };
  __device__ Parts operator()(std::int64_t i) const {
    const std::int64_t q = small_ ? divider_.divide(static_cast<unsigned>(i)) : i / size_;
    return {q, i - q * size_};
  }

 private:
  std::int64_t size_ = 1;
  bool small_ = true;
  Divider divider_;
};

}  // namespace mantissa::cuda_backend
