// The only door to oneDNN; core/onednn.cpp is the only file that includes its headers, so that
// another version of the library is a local change.
// Everything here computes on the calling thread alone: callers cut their work into pieces by shape
// and run them under parallel_for, which keeps results the same for any number of threads.
#pragma once

#include <cstdint>

namespace mantissa::onednn {

// c [m, n] = a @ b + beta * c, row-major with distances between rows in elements. With transpose_a
// the memory of a is [k, m], with transpose_b that of b is [n, k].
void sgemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
           std::int64_t a_row, const float* b, std::int64_t b_row, float beta, float* c, std::int64_t c_row);

}  // namespace mantissa::onednn
