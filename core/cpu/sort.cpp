// Order and search along a dimension: argsort, searchsorted, and the places of nonzero elements.
// Every line is ordered by (key, position), so equal keys keep their order and results do not depend
// on threads. NaN counts as the largest value, as in PyTorch.
#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "core/cpu/rows.h"
#include "core/kernel.h"
#include "core/parallel.h"

namespace mantissa {
MANTISSA_KERNEL(argsort, const View& index, const View& x, int dim, bool descending)
MANTISSA_KERNEL(searchsorted, const View& index, const View& sorted, const View& values, bool right)
MANTISSA_KERNEL(nonzero, const View& index, const View& x)
}  // namespace mantissa

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

template <class F> void visit_key(Dtype t, F&& f) {
  switch (compute_dtype(t)) {
    case Dtype::f64:
      return f.template operator()<double>();
    case Dtype::f32:
      return f.template operator()<float>();
    default:
      return f.template operator()<std::int64_t>();
  }
}
template <class C> bool less(C a, C b) {
  if constexpr (std::is_floating_point_v<C>) return a < b || (b != b && a == a);
  else return a < b;
}

// The bits of a number such that they are ordered as numbers are: -0 as 0, every NaN behind infinity.
inline std::uint32_t ordered_bits(float v) {
  const auto bits = std::bit_cast<std::int32_t>(v + 0.0f);
  const auto turned = static_cast<std::uint32_t>(bits ^ (bits >> 31 | std::numeric_limits<std::int32_t>::min()));
  return v == v ? turned : ~0u;
}

// Lines of keys put in order, with memory that serves one line after the other.
template <class C> class Orderer {
 public:
  // The positions of the first `count` of n keys in the wanted order.
  void order(std::int64_t* out, const C* key, std::int64_t n, std::int64_t count, bool descending) {
    // A key of up to 32 bits and its position make one word of 64.
    constexpr std::int64_t most = std::int64_t{1} << 32;
    if constexpr (std::is_same_v<C, float>) {
      if (n < most) return order_words(out, key, n, count, descending, ordered_bits);
    } else if constexpr (std::is_same_v<C, std::int64_t>) {
      std::int64_t least = key[0], largest = key[0];
      for (std::int64_t i = 1; i < n; ++i) least = std::min(least, key[i]), largest = std::max(largest, key[i]);
      const auto first = static_cast<std::uint64_t>(least);
      if (n < most && static_cast<std::uint64_t>(largest) - first < static_cast<std::uint64_t>(most))
        return order_words(out, key, n, count, descending, [first](std::int64_t v) {
          return static_cast<std::uint32_t>(static_cast<std::uint64_t>(v) - first);
        });
    }
    const auto before = [=](std::int64_t a, std::int64_t b) {
      const C first = key[a], second = key[b];
      if (descending ? less(second, first) : less(first, second)) return true;
      return a < b && !(descending ? less(first, second) : less(second, first));
    };
    at_.resize(static_cast<std::size_t>(n));
    std::iota(at_.begin(), at_.end(), 0);
    sort_first(at_, n, count, before);
    std::copy_n(at_.begin(), count, out);
  }

 private:
  template <class T, class Before>
  static void sort_first(std::vector<T>& v, std::int64_t n, std::int64_t count, const Before& before) {
    const auto end = v.begin() + count;
    if (count < n / 4) {
      std::nth_element(v.begin(), end, v.end(), before);
      std::sort(v.begin(), end, before);
    } else {
      std::sort(v.begin(), v.end(), before);
    }
  }
  template <class Bits>
  void order_words(std::int64_t* out, const C* key, std::int64_t n, std::int64_t count, bool descending,
                   const Bits& bits) {
    const auto word = [&bits, key, turned = descending ? ~0u : 0u](std::int64_t i) {
      return std::uint64_t{bits(key[i]) ^ turned} << 32 | static_cast<std::uint32_t>(i);
    };
    if (count <= n / 8) {  // a heap of the first ones so far
      words_.clear();
      for (std::int64_t i = 0; i < count; ++i) words_.push_back(word(i));
      std::make_heap(words_.begin(), words_.end());
      for (std::int64_t i = count; i < n; ++i) {
        const std::uint64_t w = word(i);
        if (w > words_.front()) continue;
        std::pop_heap(words_.begin(), words_.end());
        words_.back() = w;
        std::push_heap(words_.begin(), words_.end());
      }
      std::sort_heap(words_.begin(), words_.end());
    } else {
      words_.resize(static_cast<std::size_t>(n));
      for (std::int64_t i = 0; i < n; ++i) words_[static_cast<std::size_t>(i)] = word(i);
      if (count >= n / 4 && n >= long_from) sort_by_digits<11>();  // three passes at most, four else
      else if (count >= n / 4 && n >= radix_from) sort_by_digits<8>();
      else sort_first(words_, n, count, std::less<std::uint64_t>());
    }
    for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<std::uint32_t>(words_[static_cast<std::size_t>(i)]);
  }
  // By the digits of the key, the last one first; a stable pass keeps positions in order.
  static constexpr std::int64_t radix_from = 256, long_from = 8192;
  template <int bits> void sort_by_digits() {
    constexpr int key_bits = 32, digits = (key_bits + bits - 1) / bits;
    constexpr std::size_t values = std::size_t{1} << bits;
    const auto digit = [](std::uint64_t word, int d) { return word >> (key_bits + d * bits) & (values - 1); };
    std::uint64_t differing = 0;
    for (const std::uint64_t w : words_) differing |= w ^ words_[0];
    other_.resize(words_.size());
    for (int d = 0; d < digits; ++d) {
      if (digit(differing, d) == 0) continue;
      std::array<std::uint32_t, values> place{};
      for (const std::uint64_t w : words_) ++place[digit(w, d)];
      std::uint32_t begin = 0;
      for (std::uint32_t& c : place) begin += std::exchange(c, begin);
      for (const std::uint64_t w : words_) other_[place[digit(w, d)]++] = w;
      words_.swap(other_);
    }
  }

  std::vector<std::int64_t> at_;
  std::vector<std::uint64_t> words_, other_;
};

}  // namespace

// The result may be shorter than x along dim: then it holds the first of the order.
void argsort(const View& index, const View& x, int dim, bool descending) {
  if (index.numel() == 0) return;
  visit_key(x.dtype, [&]<class C> {
    const Dense<C> keys(moved_to_last(x, dim));
    DenseResult<std::int64_t> out(moved_to_last(index, dim));
    const std::int64_t n = x.sizes[dim], count = index.sizes[dim];
    parallel_for(x.numel() / n, std::max<std::int64_t>(1, grain_size / (8 * n)),
                 [&](std::int64_t first, std::int64_t last) {
                   Orderer<C> orderer;
                   for (std::int64_t r = first; r < last; ++r)
                     orderer.order(out.data() + r * count, keys.data() + r * n, n, count, descending);
                 });
    out.finish();
  });
}

// sorted [n], or [..., n] with values [..., m]: one sorted line for each line of values.
void searchsorted(const View& index, const View& sorted, const View& values, bool right) {
  if (index.numel() == 0) return;
  visit_key(promote(sorted.dtype, values.dtype), [&]<class C> {
    const Dense<C> lines(sorted), keys(values);
    DenseResult<std::int64_t> out(index);
    const std::int64_t n = sorted.sizes.back(), m = sorted.dim() == 1 ? values.numel() : values.sizes.back();
    parallel_for(values.numel(), grain_size / 16, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) {
        const C* begin = lines.data() + i / m * n;
        const C* at = right ? std::upper_bound(begin, begin + n, keys.data()[i], less<C>)
                            : std::lower_bound(begin, begin + n, keys.data()[i], less<C>);
        out.data()[i] = at - begin;
      }
    });
    out.finish();
  });
}

// index [count, rank of x], in row-major order; `count` is that of x's nonzero elements. Blocks of x are counted first,
// so that each knows where its places go.
void nonzero(const View& index, const View& x) {
  if (index.numel() == 0) return;  // also where x has no dimensions
  const std::int64_t n = x.numel(), last = x.dim() - 1, length = x.sizes.back();
  constexpr std::int64_t block = grain_size, most = 512;
  std::vector<std::int64_t> first(static_cast<std::size_t>((n + block - 1) / block));
  visit(x.dtype, [&]<class T> {
    const Dense<T> values(x);
    const auto is = [p = values.data()](std::int64_t i) { return static_cast<Compute<T>>(p[i]) != Compute<T>(0); };
    const auto for_blocks = [&](const auto& body) {
      parallel_for(std::ssize(first), 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t b = begin; b < end; ++b)
          body(first[static_cast<std::size_t>(b)], b * block, std::min(n, (b + 1) * block));
      });
    };
    for_blocks([&](std::int64_t& count, std::int64_t begin, std::int64_t end) {
      std::int64_t found = 0;
      for (std::int64_t i = begin; i < end; ++i) found += is(i);
      count = found;
    });
    std::int64_t before = 0;
    for (std::int64_t& count : first) before += std::exchange(count, before);
    for_blocks([&](std::int64_t start, std::int64_t begin, std::int64_t end) {
      std::int64_t* out = index.as<std::int64_t>() + start * (last + 1);
      std::int64_t columns[most], at[Dims::max_rank];  // at: where a piece of a row begins
      for (std::int64_t d = last, rest = begin; d >= 0; rest /= x.sizes[static_cast<int>(d--)])
        at[d] = rest % x.sizes[static_cast<int>(d)];
      for (std::int64_t i = begin, count; i < end; i += count) {
        count = std::min({most, end - i, length - at[last]});
        std::int64_t found = 0;
        for (std::int64_t j = 0; j < count; ++j) columns[found] = j, found += is(i + j);  // without a branch
        for (std::int64_t k = 0; k < found; ++k, out += last + 1) {
          std::copy_n(at, last, out);
          out[last] = at[last] + columns[k];
        }
        at[last] += count;
        for (std::int64_t d = last; d > 0 && at[d] == x.sizes[static_cast<int>(d)]; --d) at[d] = 0, ++at[d - 1];
      }
    });
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
