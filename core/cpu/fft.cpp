// Discrete Fourier transforms along the last dimension. Rows are processed in parallel lanes, as many as a vector has;
// long rows, and those too few to fill the lanes, one after the other, each with its own columns as lanes
// (core/cpu/fft_plan.h). Real rows of even length are transformed as complex ones of half the length, with adjacent
// elements as real and imaginary parts, and the spectra of even and odd elements are separated afterwards.
#include "core/cpu/fft_plan.h"
#include "core/cpu/rows.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

using namespace fft;

// exp(-2 pi i k / n), k = 0 ... n / 4, for real rows of n.
template <class C> struct RealRoots {
  std::vector<C> values;
  explicit RealRoots(std::int64_t n) {
    for (std::int64_t k = 0; k <= n / 4; ++k) push_root(values, k, n);
  }
  std::int64_t bytes() const { return static_cast<std::int64_t>(sizeof(C) * values.size()); }
};

// x[k] and x[h - k] of a real row's spectrum from z[k] and z[h - k], with w = exp(-2 pi i k / (2 h)); V: vectors or
// numbers.
template <class V> struct Two { V a_re, a_im, b_re, b_im; };
template <class V> Two<V> split_spectrum(const V& zr, const V& zi, const V& yr, const V& yi, const V& wr, const V& wi) {
  const V even_re = zr + yr, even_im = zi - yi, odd_re = zi + yi, odd_im = yr - zr;
  const V t_re = odd_re * wr - odd_im * wi, t_im = odd_re * wi + odd_im * wr;
  return {even_re + t_re, even_im + t_im, even_re - t_re, t_im - even_im};
}
// The transpose: z[k] and z[h - k] from x[k] and x[h - k].
template <class V> Two<V> join_spectrum(const V& xr, const V& xi, const V& yr, const V& yi, const V& wr, const V& wi) {
  const V even_re = xr + yr, even_im = xi - yi, d_re = xr - yr, d_im = xi + yi;
  const V t_re = d_re * wr + d_im * wi, t_im = d_im * wr - d_re * wi;  // times the conjugate of w
  return {even_re - t_im, even_im + t_re, even_re + t_im, t_re - even_im};
}

// The same for whole spectra whose elements are `width` real parts followed by `width` imaginary parts (1: pairs). x: h
// + 1 elements, z: h. V is what is processed at once: a number, or a vector for lanes.
template <class C> struct Numbers {
  using V = C;
  static constexpr std::int64_t width = 1;
  static V get(const C* p) { return *p; }
  static void put(C* p, V v) { *p = v; }
};
template <class C> struct Vectors {
  using V = Vec<C>;
  static constexpr std::int64_t width = lanes<C>;
  static V get(const C* p) { return load(p); }
  static void put(C* p, const V& v) { store(p, v); }
};
template <class By, class C>
void to_spectrum(C* x, const C* z, std::int64_t h, const RealRoots<C>& roots, C scale, C between, std::int64_t first,
                 std::int64_t last) {
  using V = typename By::V;
  constexpr std::int64_t w = By::width;
  for (std::int64_t k = first; k < last; ++k) {
    const C *p = z + 2 * k * w, *q = z + 2 * (k == 0 ? 0 : h - k) * w, *root = roots.values.data() + 2 * k;
    C *a = x + 2 * k * w, *b = x + 2 * (h - k) * w;
    if (k == 0) {
      const V re = By::get(p), im = By::get(p + w), factor(scale), none(C(0));
      By::put(a, (re + im) * factor), By::put(a + w, none);
      By::put(b, (re - im) * factor), By::put(b + w, none);
      continue;
    }
    const V factor(scale * between / 2);
    const Two<V> y = split_spectrum<V>(By::get(p), By::get(p + w), By::get(q), By::get(q + w), V(root[0]), V(root[1]));
    By::put(b, y.b_re * factor), By::put(b + w, y.b_im * factor);
    By::put(a, y.a_re * factor), By::put(a + w, y.a_im * factor);
  }
}
// swapped: exchanges real and imaginary parts of z.
template <class By, class C>
void from_spectrum(C* z, const C* x, std::int64_t h, const RealRoots<C>& roots, C between, bool swapped,
                   std::int64_t first, std::int64_t last) {
  using V = typename By::V;
  constexpr std::int64_t w = By::width;
  const std::int64_t re = swapped ? w : 0, im = w - re;
  for (std::int64_t k = first; k < last; ++k) {
    const C *p = x + 2 * k * w, *q = x + 2 * (h - k) * w, *root = roots.values.data() + 2 * k;
    C *a = z + 2 * k * w, *b = z + 2 * (k == 0 ? 0 : h - k) * w;
    if (k == 0) {
      const V low = By::get(p), high = By::get(q);
      By::put(a + re, low + high), By::put(a + im, low - high);
      continue;
    }
    const V factor(between / 2);
    const Two<V> y = join_spectrum<V>(By::get(p), By::get(p + w), By::get(q), By::get(q + w), V(root[0]), V(root[1]));
    By::put(b + re, y.b_re * factor), By::put(b + im, y.b_im * factor);
    By::put(a + re, y.a_re * factor), By::put(a + im, y.a_im * factor);
  }
}

enum class Kind { complex, real, real_inverse };

// Input or output of a job: layout of a row's elements, and where rows begin.
template <class C> struct Side {
  C* data;
  Places at;
  Dims sizes, strides;  // of the rows

  Side(const View& v, bool pairs)
      : data(v.as<C>()), at{0, pairs ? v.strides.back() : 0, pairs}, sizes(v.sizes), strides(v.strides) {
    if (pairs) sizes.erase(sizes.rank() - 1), strides.erase(strides.rank() - 1);
    at.step = strides.back();
    sizes.erase(sizes.rank() - 1), strides.erase(strides.rank() - 1);
  }
  C* row(std::int64_t r) const {
    std::int64_t begin = 0;
    for (int d = sizes.rank() - 1; d >= 0; --d) begin += r % sizes[d] * strides[d], r /= sizes[d];
    return data + begin;
  }
  // Whether pairs of a strip's rows are adjacent in memory, as long as it stays within the last dimension of rows.
  bool is_columns() const {
    return at.pairs && at.part == 1 && sizes.rank() > 0 && strides.back() == 2 && sizes.back() >= lanes<C>;
  }
};

template <class C> struct Job {
  Kind kind;
  std::int64_t n, rows;  // n: of the real or complex signal
  bool inverse;
  C scale, between;
  Side<C> x, y;
};

// Strips of rows. For real rows of even length the elements are pairs of adjacent numbers.
template <class C> void run_strips(const Job<C>& job) {
  const std::int64_t n = job.n, w = lanes<C>;
  const bool halves = job.kind != Kind::complex && n % 2 == 0;
  const auto transform = kept<Transform<C>>(halves ? n / 2 : n);
  const auto roots = halves ? kept<RealRoots<C>>(n) : nullptr;
  const bool cut = job.x.is_columns() || job.y.is_columns();
  const std::int64_t together = cut ? job.y.sizes.back() : job.rows, strips = (together + w - 1) / w;
  const auto two = [&](Side<C> s) {  // a real row viewed as pairs
    if (halves) s.at = {2 * s.at.step, s.at.step, true};
    return s;
  };
  const Side<C> x = job.kind == Kind::real ? two(job.x) : job.x,
                y = job.kind == Kind::real_inverse ? two(job.y) : job.y;
  const std::int64_t length = transform->size(), size = 2 * w * std::max(length + 1, transform->room()),
                     ends = n / 2 + 1;
  parallel_for(job.rows / together * strips, std::max<std::int64_t>(1, grain_size / (4 * n * w)),
               [&](std::int64_t begin, std::int64_t end) {
                 const Room<C> room(2 * size);
                 C *const a = room.data(), *const b = a + size;
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t outer = i / strips * together, first = i % strips * w;
                   const auto strip = [&](const Side<C>& s) {
                     return strip_of<C>(first, together, s.at, [&](std::int64_t r) { return s.row(outer + r); });
                   };
                   const bool inverse = job.inverse;
                   if (job.kind == Kind::complex) {
                     load_strip(a, strip(x), n, inverse);
                     store_strip(strip(y), transform->run(a, b), n, inverse, job.scale);
                   } else if (job.kind == Kind::real) {
                     load_strip(a, strip(x), length, false);
                     C* const z = transform->run(a, b);
                     C* out = z == a ? b : a;
                     if (halves) {
                       to_spectrum<Vectors<C>>(out, z, n / 2, *roots, job.scale, job.between, 0, n / 4 + 1);
                     } else {
                       out = z;
                       for (std::int64_t j = 2 * w; j < ends * 2 * w; ++j) z[j] *= job.between;
                       for (std::int64_t j = 0; j < ends * 2 * w; ++j) z[j] *= job.scale;
                     }
                     store_strip(strip(y), out, ends, false, C(1));
                   } else {
                     load_strip(a, strip(x), ends, false);
                     if (halves) {
                       from_spectrum<Vectors<C>>(b, a, n / 2, *roots, job.between, true, 0, n / 4 + 1);
                     } else {
                       for (std::int64_t l = 0; l < w; ++l) b[l] = C(0), b[w + l] = a[l];
                       for (std::int64_t k = 1; k < ends; ++k) {
                         C *const p = a + 2 * k * w, *const q = b + 2 * k * w, *const r = b + 2 * (n - k) * w;
                         for (std::int64_t l = 0; l < w; ++l) {
                           q[w + l] = r[w + l] = p[l] * (job.between / 2);
                           q[l] = p[w + l] * (job.between / 2);
                           r[l] = -q[l];
                         }
                       }
                     }
                     store_strip(strip(y), transform->run(b, a), length, true, job.scale);
                   }
                 }
               });
}

// One row after the other; their elements are contiguous.
template <class C> void run_rows(const Job<C>& job) {
  const std::int64_t n = job.n, ends = n / 2 + 1;
  const bool halves = job.kind != Kind::complex && n % 2 == 0;
  const auto plan = kept<Plan<C>>(halves ? n / 2 : n);
  const auto roots = halves ? kept<RealRoots<C>>(n) : nullptr;
  const auto in_parts = [&](const auto& body) { parallel_for(n / 4 + 1, grain_size / 8, body); };
  const auto one = [&](std::int64_t r) {
    const Room<C> room(4 * n);
    C *const a = room.data(), *const b = a + 2 * n;
    const C* const x = job.x.row(r);
    C* const y = job.y.row(r);
    if (job.kind == Kind::complex) {
      plan->run(y, x, job.inverse, job.scale);
    } else if (job.kind == Kind::real && halves) {
      plan->run(a, x, false, C(1));
      in_parts([&](std::int64_t first, std::int64_t last) {
        to_spectrum<Numbers<C>>(y, a, n / 2, *roots, job.scale, job.between, first, last);
      });
    } else if (job.kind == Kind::real) {
      for (std::int64_t i = 0; i < n; ++i) a[2 * i] = x[i], a[2 * i + 1] = 0;
      plan->run(b, a, false, job.scale);
      y[0] = b[0], y[1] = 0;
      for (std::int64_t i = 2; i < 2 * ends; ++i) y[i] = b[i] * job.between;
    } else if (halves) {
      in_parts([&](std::int64_t first, std::int64_t last) {
        from_spectrum<Numbers<C>>(a, x, n / 2, *roots, job.between, false, first, last);
      });
      plan->run(y, a, true, job.scale);
    } else {
      a[0] = x[0], a[1] = 0;
      for (std::int64_t k = 1; k < ends; ++k) {
        a[2 * k] = a[2 * (n - k)] = x[2 * k] * (job.between / 2);
        a[2 * k + 1] = x[2 * k + 1] * (job.between / 2);
        a[2 * (n - k) + 1] = -a[2 * k + 1];
      }
      plan->run(b, a, true, job.scale);
      for (std::int64_t i = 0; i < n; ++i) y[i] = b[2 * i];
    }
  };
  if (job.rows < 8) {
    for (std::int64_t r = 0; r < job.rows; ++r) one(r);
  } else {
    parallel_for(job.rows, std::max<std::int64_t>(1, grain_size / (4 * n)), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) one(r);
    });
  }
}

// The elements of a view as C, in place or copied: f16 and bf16 are widened, and with `dense` rows are made contiguous.
template <class C> class Elements {
 public:
  Elements(const View& v, bool dense, bool read) : view(v), given_(v) {
    if (v.dtype == dtype_of<C> && (!dense || v.is_contiguous())) return;
    copy_ = Tensor::allocate(v.sizes, dtype_of<C>);
    view = copy_.view();
    if (read) copy(view, v);
  }
  void finish() const {
    if (copy_.defined()) copy(given_, view);
  }
  View view;

 private:
  View given_;
  Tensor copy_;
};

void run(Kind kind, const View& y, const View& x, std::int64_t n, bool inverse, double scale, double between) {
  if (x.numel() == 0 || y.numel() == 0) return;
  visit_compute(y.dtype, [&]<class C> {
    // Depends on sizes alone, so that the bits do not depend on x's strides. Longer strips do not fit the cache.
    const std::int64_t rows = kind == Kind::real_inverse ? y.numel() / n : x.numel() / (kind == Kind::real ? n : 2 * n);
    const std::int64_t length = kind != Kind::complex && n % 2 == 0 ? n / 2 : n;
    const bool strips = length <= 128 || (4 * rows >= lanes<C> && length <= 2048);
    const Elements<C> from(x, !strips, true), to(y, !strips, false);
    const Job<C> job{kind,
                     n,
                     rows,
                     inverse,
                     static_cast<C>(scale),
                     static_cast<C>(between),
                     Side<C>(from.view, kind != Kind::real),
                     Side<C>(to.view, kind != Kind::real_inverse)};
    if (strips) run_strips(job);
    else run_rows(job);
    to.finish();
  });
}

}  // namespace

void fft_complex(const View& y, const View& x, double scale, bool inverse) {
  run(Kind::complex, y, x, x.size(x.dim() - 2), inverse, scale, 2);
}
void fft_real(const View& y, const View& x, double scale, double between) {
  run(Kind::real, y, x, x.size(x.dim() - 1), false, scale, between);
}
void fft_real_inverse(const View& y, const View& x, double scale, double between) {
  run(Kind::real_inverse, y, x, y.size(y.dim() - 1), true, scale, between);
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
