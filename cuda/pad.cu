// Constant padding: each word of the result is written once, from x or with the value. Mirrors core/cpu/pad.cpp.
#include "core/pad.h"

#include <cstring>

#include "core/kernel.h"
#include "core/visit_word.h"
#include "cuda/launch.cuh"
#include "cuda/split.cuh"

namespace mantissa {
MANTISSA_KERNEL(fill, const View& y, double value)
MANTISSA_KERNEL(constant_pad, const View& y, const View& x, const Dims& before, double value)
}  // namespace mantissa

namespace mantissa::cuda_backend {
namespace {

// Dimension 0 is the innermost one; the result is dense.
struct Padding {
  int rank = 0;
  std::int64_t count = 1;  // threads
  Split sizes[Dims::max_rank];
  std::int64_t before[Dims::max_rank]{}, in[Dims::max_rank]{}, from[Dims::max_rank]{};

  // `lanes`: neighbouring words that a thread writes.
  Padding(const PadPlan& p, std::int64_t lanes) : rank(p.out.rank()) {
    for (std::int64_t n : p.out) count *= n;
    count /= lanes;
    for (int d = 0; d < rank; ++d) {
      const int k = rank - 1 - d;
      sizes[d] = Split(d == 0 ? p.out[k] / lanes : p.out[k], count);
      before[d] = p.before[k], in[d] = p.in[k], from[d] = p.from[k];
    }
  }
};

template <class Word, int lanes> struct alignas(sizeof(Word) * lanes) Words { Word at[lanes]; };

template <class Word, int lanes> __global__ void constant_pad_kernel(Padding p, Word* y, const Word* x, Word value) {
  wait_for_previous_kernel();
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < p.count; i += step) {
    Split::Parts parts = p.sizes[0](i);
    const std::int64_t first = parts.rest * lanes - p.before[0];
    std::int64_t from = 0;
    bool inside = true;
    for (int d = 1; d < p.rank; ++d) {
      parts = p.sizes[d](parts.quotient);
      const std::int64_t at = parts.rest - p.before[d];
      inside = inside && at >= 0 && at < p.in[d];
      from += at * p.from[d];
    }
    Words<Word, lanes> words;
#pragma unroll
    for (int k = 0; k < lanes; ++k) {
      const std::int64_t at = first + k;
      words.at[k] = inside && at >= 0 && at < p.in[0] ? x[from + at * p.from[0]] : value;
    }
    reinterpret_cast<Words<Word, lanes>*>(y)[i] = words;
  }
}

template <int lanes, class Word> void pad_words(const PadPlan& p, const View& y, const View& x, Word value) {
  const Padding padding(p, lanes);
  launch("constant_pad", &constant_pad_kernel<Word, lanes>, grid_for(padding.count, 2), padding, y.as<Word>(),
         x.as<const Word>(), value);
}

bool aligned(const View& v) { return reinterpret_cast<std::uintptr_t>(v.data) % 16 == 0; }

// In words of 16 bytes, if everything consists of such.
bool widen(PadPlan& p, const View& y, const View& x, std::int64_t per) {
  bool fits = aligned(y) && aligned(x) && p.from.back() == 1;
  for (const Dims* d : {&p.out, &p.in, &p.before}) fits = fits && d->back() % per == 0;
  for (int d = 0; d + 1 < p.from.rank(); ++d) fits = fits && p.from[d] % per == 0;
  if (!fits) return false;
  for (Dims* d : {&p.out, &p.in, &p.before}) d->back() /= per;
  for (int d = 0; d + 1 < p.from.rank(); ++d) p.from[d] /= per;
  return true;
}

}  // namespace

void constant_pad(const View& y, const View& x, const Dims& before, double value) {
  if (y.numel() == 0) return;
  PadPlan p(y, x, before);
  if (p.out.empty())  // one element, without a border
    p.out.push_back(1), p.in.push_back(x.numel()), p.before.push_back(0), p.to.push_back(1), p.from.push_back(1);
  visit_word(y.dtype, [&]<class Word>() {
    constexpr auto per = static_cast<int>(16 / sizeof(Word));
    Word word;
    kernels::fill(cpu, View{&word, {}, {}, y.dtype, cpu}, value);
    if (widen(p, y, x, per)) {
      uint4 wide;
      for (int k = 0; k < per; ++k) std::memcpy(reinterpret_cast<char*>(&wide) + k * sizeof(Word), &word, sizeof word);
      return pad_words<1>(p, y, x, wide);
    }
    if (p.out.back() % per == 0 && aligned(y)) return pad_words<per>(p, y, x, word);
    pad_words<1>(p, y, x, word);
  });
}

}  // namespace mantissa::cuda_backend
