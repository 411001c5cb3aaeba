// TF32: a GPU may round the operands of f32 products and convolutions to 10 bits of mantissa (f32 has 23), so that its
// Tensor Cores can multiply them; sums stay in f32.
//
//   allow_tf32();                      // before training in f32, or beside autocast for what it keeps in f32
//   Tensor y = matmul(a, b);           // on cuda: each operand with a relative error of up to 2^-11
//
// A permission: the fastest kernel is chosen, which may be one that does not round. Off until given, for products and
// convolutions alike (PyTorch: torch.backends.cuda.matmul.allow_tf32, off by default, and torch.backends.cudnn's, on).
// It concerns f32 on GPUs from sm_80; other dtypes and the CPU compute as ever. It is the process's, holds for
// operators called from then on in all threads, and a captured step is recorded separately with and without it.
#pragma once

#include <atomic>

namespace mantissa {

namespace detail {
inline std::atomic<bool> tf32_allowed{false};
}

inline void allow_tf32(bool allowed = true) { detail::tf32_allowed.store(allowed, std::memory_order_relaxed); }
inline bool is_tf32_allowed() { return detail::tf32_allowed.load(std::memory_order_relaxed); }

}  // namespace mantissa
