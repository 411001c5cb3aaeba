// Sorting and searching along a dimension: argsort, searchsorted, and the indices of nonzero elements. Every line is
// ordered by (key, position), so sorting is stable and results do not depend on threads. NaN counts as the largest
// value, as in PyTorch.
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
MANTISSA_KERNEL(argsort_place, const View& index, const View& x, int dim, std::int64_t place, bool nan_wins)
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
  if constexpr (std::is_floating_point_v<C>) return (a < b) | ((b != b) & (a == a));
  else return a < b;
}

// Which keys of a vector may come before `last`, as bits: NaN always may.
template <class C> std::uint64_t may_precede(const C* key, const Vec<C>& last, bool descending) {
  constexpr std::uint64_t all = ~std::uint64_t{0} >> (64 - Vec<C>::size);
  const Vec<C> v = load(key);
  const auto cannot = descending ? v <= last : v >= last;
#if defined(__AVX512BW__)
  return all & ~std::uint64_t{cannot.data};
#else
  if (xsimd::all(cannot)) return 0;
  bool lanes[Vec<C>::size];
  cannot.store_unaligned(lanes);
  std::uint64_t bits = all;
  for (std::size_t i = 0; i < Vec<C>::size; ++i) bits ^= std::uint64_t{lanes[i]} << i;
  return bits;
#endif
}

// Number of leading elements for which `before` is true, of n elements partitioned by it. Binary search without
// branches, which would be unpredictable.
template <class C, class Before> std::int64_t count_leading(const C* from, std::int64_t n, const Before& before) {
  const C* at = from;
  for (; n > 1; n -= n / 2) at += n / 2 & -static_cast<std::int64_t>(before(at[n / 2 - 1]));
  return at - from + (n == 1 && before(*at));
}

// Maps a number to bits whose unsigned order is that of the numbers: -0 like 0, every NaN after infinity.
inline std::uint32_t ordered_bits(float v) {
  const auto bits = std::bit_cast<std::int32_t>(v + 0.0f);
  const auto turned = static_cast<std::uint32_t>(bits ^ (bits >> 31 | std::numeric_limits<std::int32_t>::min()));
  return v == v ? turned : ~0u;
}
inline std::uint64_t ordered_bits(double v) {
  const auto bits = std::bit_cast<std::int64_t>(v + 0.0);
  const auto turned = static_cast<std::uint64_t>(bits ^ (bits >> 63 | std::numeric_limits<std::int64_t>::min()));
  return v == v ? turned : ~std::uint64_t{0};
}

// The sorted item: a key and its position. If each has at most 32 bits, both are packed into one 64-bit word.
struct PairOfWords {
  std::uint64_t key, position;
  auto operator<=>(const PairOfWords&) const = default;
};
inline std::uint32_t key_of(std::uint64_t w) { return static_cast<std::uint32_t>(w >> 32); }
inline std::uint64_t key_of(const PairOfWords& w) { return w.key; }
inline std::uint64_t key_from(std::uint64_t w, int bit) { return w >> (32 + bit); }  // drops the last `bit` bits
inline std::uint64_t key_from(const PairOfWords& w, int bit) { return w.key >> bit; }
inline std::int64_t position_of(std::uint64_t w) { return static_cast<std::uint32_t>(w); }
inline std::int64_t position_of(const PairOfWords& w) { return static_cast<std::int64_t>(w.position); }

// Calls f(word, bits): word(i) is key i of a line as a word ordered by (key, position), bits the number of bits of the
// keys.
constexpr std::int64_t most_of_words = std::int64_t{1} << 32;  // positions
template <class C, class F> void with_words(const C* key, std::int64_t n, bool descending, const F& f) {
  const auto of_32 = [&](const auto& bits, int width) {
    f(
        [=, turned = descending ? ~0u : 0u](std::int64_t i) {
          return std::uint64_t{static_cast<std::uint32_t>(bits(key[i])) ^ turned} << 32 | static_cast<std::uint32_t>(i);
        },
        descending ? 32 : width);
  };
  const auto of_64 = [&](const auto& bits) {
    f(
        [=, turned = descending ? ~std::uint64_t{0} : 0](std::int64_t i) {
          return PairOfWords{bits(key[i]) ^ turned, static_cast<std::uint64_t>(i)};
        },
        64);
  };
  if constexpr (std::is_same_v<C, float>) {
    if (n < most_of_words) return of_32([](float v) { return ordered_bits(v); }, 32);
    of_64([](float v) { return std::uint64_t{ordered_bits(v)}; });
  } else if constexpr (std::is_same_v<C, double>) {
    of_64([](double v) { return ordered_bits(v); });
  } else {
    std::int64_t least = key[0], largest = key[0];
    for (std::int64_t i = 1; i < n; ++i) least = std::min(least, key[i]), largest = std::max(largest, key[i]);
    const auto first = static_cast<std::uint64_t>(least), range = static_cast<std::uint64_t>(largest) - first;
    const auto from_first = [first](std::int64_t v) { return static_cast<std::uint64_t>(v) - first; };
    if (n < most_of_words && range < static_cast<std::uint64_t>(most_of_words))
      of_32(from_first, std::bit_width(range));
    else of_64(from_first);
  }
}

// Long lines are processed in blocks by all threads; the number of blocks depends on the length alone.
struct Blocks {
  std::int64_t n, count, size;
  explicit Blocks(std::int64_t n)
      : n(n), count(std::clamp<std::int64_t>(n / 65536, 1, 16)), size((n + count - 1) / count) {}
  // body(block, begin, end)
  template <class F> void each(const F& body) const {
    parallel_for(count, 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t b = first; b < last; ++b) body(b, b * size, std::min(n, (b + 1) * size));
    });
  }
};

// Radix sort of n words by the digits of their keys, the last one first; stable passes keep positions in order. `other`
// is a buffer of the same size. Returns the one that holds the result.
template <int bits, class Word> Word* sort_by_digits(Word* words, Word* other, std::int64_t n) {
  constexpr int digits = (8 * static_cast<int>(sizeof(key_of(Word{}))) + bits - 1) / bits;
  constexpr std::size_t values = std::size_t{1} << bits;
  const auto digit = [](const Word& w, int d) { return key_from(w, d * bits) & (values - 1); };
  const Blocks blocks(n);
  using Place = std::conditional_t<sizeof(Word) == 8, std::uint32_t, std::uint64_t>;
  std::vector<std::array<Place, values>> places(static_cast<std::size_t>(blocks.count));
  auto differing = key_of(words[0]) ^ key_of(words[0]);
  for (std::int64_t i = 1; i < n; ++i) differing |= key_of(words[i]) ^ key_of(words[0]);
  for (int d = 0; d < digits; ++d) {
    if ((differing >> (d * bits) & (values - 1)) == 0) continue;
    blocks.each([&](std::int64_t b, std::int64_t begin, std::int64_t end) {
      Place* const place = places[static_cast<std::size_t>(b)].data();
      const Word* const from = words;
      std::fill_n(place, values, 0);
      for (std::int64_t i = begin; i < end; ++i) ++place[digit(from[i], d)];
    });
    Place begin = 0;
    const auto begin_at = [&begin](Place& place) { begin += std::exchange(place, begin); };
    if (blocks.count == 1) {
      for (Place& place : places[0]) begin_at(place);
    } else {
      for (std::size_t v = 0; v < values; ++v)
        for (auto& place : places) begin_at(place[v]);
    }
    blocks.each([&](std::int64_t b, std::int64_t begin, std::int64_t end) {
      Place* const place = places[static_cast<std::size_t>(b)].data();
      const Word* const from = words;
      Word* const to = other;
      for (std::int64_t i = begin; i < end; ++i) to[place[digit(from[i], d)]++] = from[i];
    });
    std::swap(words, other);
  }
  return words;
}

// Sorts lines of keys, reusing its memory from line to line.
template <class C> class Orderer {
 public:
  // The positions of the first `count` of n keys in the requested order.
  void order(std::int64_t* out, const C* key, std::int64_t n, std::int64_t count, bool descending) {
    with_words(key, n, descending, [&](const auto& word, int) {
      decltype(word(0)) few[most_of_few];
      const auto* words = few;
      if (count <= std::min(most_of_some, n / 8) || count <= std::min(most_of_few, n / 64))
        find_first_few(few, key, word, n, count, descending);
      else if (count <= n / 64) words = first_of_many(key, word, n, count, descending);
      else words = ordered(word, n, count);
      parallel_for(count, grain_size, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t i = first; i < last; ++i) out[i] = position_of(words[i]);
      });
    });
  }
  // The position of the key with index `place` in the sorted order. Of a long line, only the keys with the same first
  // digit are sorted.
  std::int64_t at(const C* key, std::int64_t n, std::int64_t place) {
    std::int64_t found = 0;
    with_words(key, n, false, [&](const auto& word, int width) {
      using Word = decltype(word(0));
      constexpr int digit_bits = 11;
      Word* words = nullptr;
      std::int64_t count = n;
      if (n < select_from || n >= most_of_words) {
        words = room<Word>(words_, n);
        for (std::int64_t i = 0; i < n; ++i) words[i] = word(i);
      } else {
        const auto digit = [&, shift = std::max(0, width - digit_bits)](std::int64_t i) {
          return static_cast<std::size_t>(key_of(word(i)) >> shift);
        };
        const Blocks blocks(n);
        std::vector<std::array<std::uint32_t, std::size_t{1} << digit_bits>> counts(  // zero-initialised
            static_cast<std::size_t>(blocks.count));
        blocks.each([&](std::int64_t b, std::int64_t begin, std::int64_t end) {
          auto& of = counts[static_cast<std::size_t>(b)];
          for (std::int64_t i = begin; i < end; ++i) ++of[digit(i)];
        });
        auto total = counts[0];
        for (std::size_t b = 1; b < counts.size(); ++b)
          for (std::size_t v = 0; v < total.size(); ++v) total[v] += counts[b][v];
        std::size_t wanted = 0;
        for (; place >= total[wanted]; ++wanted) place -= total[wanted];
        count = total[wanted];
        std::uint32_t first = 0;
        for (auto& of : counts) first += std::exchange(of[wanted], first);
        words = room<Word>(words_, count);
        blocks.each([&](std::int64_t b, std::int64_t begin, std::int64_t end) {
          Word* to = words + counts[static_cast<std::size_t>(b)][wanted];
          for (std::int64_t i = begin; i < end; ++i)
            if (digit(i) == wanted) *to++ = word(i);
        });
      }
      std::nth_element(words, words + place, words + count);
      found = position_of(words[place]);
    });
    return found;
  }

 private:
  // How many are few: of 8 times as many, and of 64 times as many.
  static constexpr std::int64_t most_of_some = 16, most_of_few = 64;
  static constexpr std::int64_t radix_from = 256, select_from = 512, long_from = 8192;
  // Uninitialised memory for n words.
  template <class Word> static Word* room(Tensor& memory, std::int64_t n) {
    const std::int64_t size = n * static_cast<std::int64_t>(sizeof(Word) / sizeof(std::int64_t));
    if (!memory.defined() || memory.numel() < size) memory = Tensor::allocate({size}, i64);
    return static_cast<Word*>(memory.raw_data());
  }
  // The first `count` of n words in sorted order, for few of many: a key that precedes the last of them takes its place
  // among them. Most do not, and are passed over by vectors.
  template <class Word, class WordAt>
  static void find_first_few(Word* first, const C* key, const WordAt& word, std::int64_t n, std::int64_t count,
                             bool descending) {
    constexpr auto width = static_cast<std::int64_t>(Vec<C>::size);
    for (std::int64_t i = 0; i < count; ++i) first[i] = word(i);
    std::sort(first, first + count);
    const auto take = [&](std::int64_t i) {
      const Word w = word(i);
      if (w > first[count - 1]) return;
      std::int64_t at = count - 1;
      for (; at > 0 && first[at - 1] > w; --at) first[at] = first[at - 1];
      first[at] = w;
    };
    const auto last = [&] { return Vec<C>(key[position_of(first[count - 1])]); };
    Vec<C> bound = last();
    std::int64_t i = count;
    for (; i + width <= n; i += width) {
      std::uint64_t left = may_precede(key + i, bound, descending);
      if (left == 0) continue;
      for (; left != 0; left &= left - 1) take(i + std::countr_zero(left));
      bound = last();
    }
    for (; i < n; ++i) take(i);
  }
  // The same for more of them: the other keys are collected, and reduced to the first ones when there are as many.
  template <class WordAt>
  const auto* first_of_many(const C* key, const WordAt& word, std::int64_t n, std::int64_t count, bool descending) {
    using Word = decltype(word(0));
    constexpr auto width = static_cast<std::int64_t>(Vec<C>::size);
    Word* const some = room<Word>(words_, 2 * count + width);
    std::int64_t held = 0, i = 0;
    const auto keep_first = [&] {
      std::nth_element(some, some + count - 1, some + held);
      held = count;
      return Vec<C>(key[position_of(some[count - 1])]);
    };
    for (; i < 2 * count; ++i) some[held++] = word(i);
    Vec<C> last = keep_first();
    for (; i + width <= n; i += width) {
      for (std::uint64_t left = may_precede(key + i, last, descending); left != 0; left &= left - 1)
        some[held++] = word(i + std::countr_zero(left));
      if (held >= 2 * count) last = keep_first();
    }
    for (; i < n; ++i) some[held++] = word(i);
    keep_first();
    std::sort(some, some + count);
    return static_cast<const Word*>(some);
  }
  // The same for any `count`.
  template <class WordAt> const auto* ordered(const WordAt& word, std::int64_t n, std::int64_t count) {
    using Word = decltype(word(0));
    Word* const words = room<Word>(words_, n);
    parallel_for(n, grain_size, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) words[i] = word(i);
    });
    if (count >= n / 4 && n >= long_from && n < most_of_words)  // at most three passes for 32 bits, else four
      return static_cast<const Word*>(sort_by_digits<11>(words, room<Word>(other_, n), n));
    if (count >= n / 4 && n >= radix_from && n < most_of_words)
      return static_cast<const Word*>(sort_by_digits<8>(words, room<Word>(other_, n), n));
    if (count < n / 4) std::nth_element(words, words + count, words + n);
    std::sort(words, words + (count < n / 4 ? count : n));
    return static_cast<const Word*>(words);
  }

  Tensor words_, other_;
};

}  // namespace

// The result may be shorter than x along dim: then it holds the first positions.
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
// index has size 1 along dim: the position of the element with sorted index `place` in each line. nan_wins: the first
// NaN if there is one.
void argsort_place(const View& index, const View& x, int dim, std::int64_t place, bool nan_wins) {
  if (index.numel() == 0) return;
  visit_key(x.dtype, [&]<class C> {
    const Dense<C> keys(moved_to_last(x, dim));
    DenseResult<std::int64_t> out(moved_to_last(index, dim));
    const std::int64_t n = x.sizes[dim];
    parallel_for(
        x.numel() / n, std::max<std::int64_t>(1, grain_size / (4 * n)), [&](std::int64_t first, std::int64_t last) {
          Orderer<C> orderer;
          for (std::int64_t r = first; r < last; ++r) {
            const C* const line = keys.data() + r * n;
            bool has_nan = false;
            for (std::int64_t i = 0; nan_wins && i < n; ++i) has_nan |= line[i] != line[i];
            out.data()[r] =
                has_nan ? std::find_if(line, line + n, [](C v) { return v != v; }) - line : orderer.at(line, n, place);
          }
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
        const C *const begin = lines.data() + i / m * n, v = keys.data()[i];
        out.data()[i] = right ? count_leading(begin, n, [v](C e) { return !less(v, e); })
                              : count_leading(begin, n, [v](C e) { return less(e, v); });
      }
    });
    out.finish();
  });
}

// index [count, rank of x], in row-major order; `count` is the number of x's nonzero elements. Blocks of x are counted
// first, so that each knows where to write its indices.
void nonzero(const View& index, const View& x) {
  if (index.numel() == 0) return;  // also if x has no dimensions
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
      std::int64_t columns[most], at[Dims::max_rank];  // at: start of a piece of a row
      for (std::int64_t d = last, rest = begin; d >= 0; rest /= x.sizes[static_cast<int>(d--)])
        at[d] = rest % x.sizes[static_cast<int>(d)];
      for (std::int64_t i = begin, count; i < end; i += count) {
        count = std::min({most, end - i, length - at[last]});
        std::int64_t found = 0;
        for (std::int64_t j = 0; j < count; ++j) columns[found] = j, found += is(i + j);  // branch-free
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
