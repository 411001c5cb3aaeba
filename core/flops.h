// Counts the floating-point operations of matrix products, convolutions, attention and recurrent layers, and of their
// gradients; a multiplication and an addition are two. Everything else (elementwise operators, norms, optimizers) is
// counted as none, as by torch.utils.flop_counter.
//
//   const FlopCounter counter;
//   train_step();
//   fmt::print("{:.1f} GFLOP\n", counter.count() / 1e9);
//
// Counted is what the calling thread asks for, by its definition and not by the algorithm: a convolution by Winograd's
// counts as any other, and a causal mask saves nothing. A captured step (jit/capture.h) counts in every call. For the
// operators one by one, and the rate of each: ProfileOptions::flops (core/profile.h).
#pragma once

namespace mantissa {

namespace detail {
inline constinit thread_local double flops = 0;  // of this thread so far
}

class FlopCounter {
 public:
  double count() const { return detail::flops - start_; }  // since it was made

 private:
  double start_ = detail::flops;
};

// For kernels: `flops` operations, among which are those asked for while it exists.
class [[nodiscard]] CountedFlops {
 public:
  explicit CountedFlops(double flops) : sum_(detail::flops + flops) {}
  ~CountedFlops() { detail::flops = sum_; }
  CountedFlops(const CountedFlops&) = delete;
  CountedFlops& operator=(const CountedFlops&) = delete;

 private:
  double sum_;
};

}  // namespace mantissa
