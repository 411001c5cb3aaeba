// Discrete Fourier transforms along the last dimension with Stockham passes: in a block's shared memory if a row fits,
// otherwise in global memory with one launch per pass. If n has a prime factor above 7, the transform becomes a
// convolution of another length (Bluestein). Real rows are transformed as complex ones. Mirrors core/cpu/fft.cpp.
#include "core/fft.h"

#include "cuda/reduction.cuh"

namespace mantissa::cuda_backend {
namespace {

template <class C> struct Complex {
  C re, im;
  __device__ Complex operator+(const Complex& b) const { return {re + b.re, im + b.im}; }
  __device__ Complex operator-(const Complex& b) const { return {re - b.re, im - b.im}; }
  __device__ Complex operator*(const Complex& b) const { return {re * b.re - im * b.im, re * b.im + im * b.re}; }
  __device__ Complex times_minus_i() const { return {im, -re}; }
};

// exp(-2 pi i j / n), 0 <= j < n, from angles of at most an eighth of a turn, like fourier::root.
template <class C> __device__ Complex<C> root_of(std::int64_t j, std::int64_t n) {
  const std::int64_t eighth = 8 * j / n, up = 8 * j - eighth * n;
  const bool falls = eighth % 2 != 0;
  const C angle = C(0.78539816339744830961566) * (static_cast<C>(falls ? n - up : up) / static_cast<C>(n));
  const C sine = std::sin(angle), cosine = std::cos(angle);
  switch (eighth) {
    case 0:
      return {cosine, -sine};
    case 1:
      return {sine, -cosine};
    case 2:
      return {-sine, -cosine};
    case 3:
      return {-cosine, -sine};
    case 4:
      return {-cosine, sine};
    case 5:
      return {-sine, cosine};
    case 6:
      return {sine, cosine};
    default:
      return {cosine, sine};
  }
}

// --- memory layout of rows ---
enum class Kind { complex, real, real_inverse };
struct Side {
  void* data = nullptr;
  Dtype dtype = f32;
  Offsets row;
  std::int64_t step = 1, part = 0;  // strides between elements, and from real to imaginary part
};
struct Job {
  Kind kind;
  std::int64_t n, rows;
  bool inverse;
  double scale, between;
  Side x, y;
};
// An inverse transform is the conjugate of the forward transform of the conjugate: conjugated on load and on store.
template <class C> __device__ Complex<C> load_number(const Job& job, std::int64_t row, std::int64_t j) {
  const Side& x = job.x;
  const auto at = [&](std::int64_t i) { return load_element<C>(x.data, x.dtype, x.row(row) + i); };
  if (job.kind == Kind::real) return {at(j * x.step), C(0)};
  if (job.kind == Kind::complex)
    return {at(j * x.step), job.inverse ? -at(j * x.step + x.part) : at(j * x.step + x.part)};
  const bool mirrored = j > job.n / 2;
  const std::int64_t k = mirrored ? job.n - j : j;
  if (k == 0 || 2 * k == job.n) return {at(k * x.step), C(0)};
  const C factor = static_cast<C>(job.between / 2), im = at(k * x.step + x.part) * factor;
  return {at(k * x.step) * factor, mirrored ? im : -im};
}
template <class C> __device__ void store_number(const Job& job, std::int64_t row, std::int64_t k, const Complex<C>& v) {
  const Side& y = job.y;
  const auto put = [&](std::int64_t i, C value) { store_element(y.data, y.dtype, y.row(row) + i, value); };
  if (job.kind == Kind::real_inverse) return put(k * y.step, v.re * static_cast<C>(job.scale));
  const bool end = k == 0 || 2 * k == job.n;
  if (job.kind == Kind::real && k > job.n / 2) return;
  const C factor = static_cast<C>(job.kind == Kind::real && !end ? job.scale * job.between : job.scale);
  put(k * y.step, v.re * factor);
  put(k * y.step + y.part, job.kind == Kind::real && end ? C(0) : (job.inverse ? -v.im : v.im) * factor);
}

// --- passes ---
struct Radices {
  int count = 0;
  int radix[40] = {};
};
constexpr int largest_radix = 7;

// Transforms of r numbers, r known at compile time, so that they stay in registers.
template <class C> __device__ void transform(Complex<C> (&a)[2]) {
  const Complex<C> t = a[0] - a[1];
  a[0] = a[0] + a[1];
  a[1] = t;
}
template <class C> __device__ void transform(Complex<C> (&a)[4]) {
  const Complex<C> s = a[0] + a[2], t = a[0] - a[2], u = a[1] + a[3], v = (a[1] - a[3]).times_minus_i();
  a[0] = s + u;
  a[1] = t + v;
  a[2] = s - u;
  a[3] = t - v;
}
template <class C, int r> __device__ void transform(Complex<C> (&a)[r]) {
  Complex<C> w[r], y[r];
#pragma unroll
  for (int k = 0; k < r; ++k) w[k] = root_of<C>(k, r);
#pragma unroll
  for (int j = 0; j < r; ++j) {
    y[j] = a[0];
#pragma unroll
    for (int k = 1; k < r; ++k) y[j] = y[j] + a[k] * w[j * k % r];
  }
#pragma unroll
  for (int j = 0; j < r; ++j) a[j] = y[j];
}

// Butterfly i of n / r: r elements of x to r of y, after passes whose radices have the product `stride`.
template <int r, class C>
__device__ void transform_group(Complex<C>* y, const Complex<C>* x, std::int64_t n, std::int64_t stride,
                                std::int64_t i) {
  const std::int64_t p = i / stride, q = i - p * stride, groups = n / r;
  Complex<C> a[r];
#pragma unroll
  for (int k = 0; k < r; ++k) a[k] = x[i + groups * k];
  transform(a);
  Complex<C>* const to = y + q + stride * r * p;
#pragma unroll
  for (int j = 0; j < r; ++j) to[stride * j] = p == 0 || j == 0 ? a[j] : a[j] * root_of<C>(p * j, n / stride);
}
template <class C>
__device__ void transform_group(Complex<C>* y, const Complex<C>* x, std::int64_t n, int r, std::int64_t stride,
                                std::int64_t i) {
  switch (r) {
    case 2:
      return transform_group<2>(y, x, n, stride, i);
    case 3:
      return transform_group<3>(y, x, n, stride, i);
    case 4:
      return transform_group<4>(y, x, n, stride, i);
    case 5:
      return transform_group<5>(y, x, n, stride, i);
    default:
      return transform_group<7>(y, x, n, stride, i);
  }
}

// One block per row; two rows of n numbers in shared memory.
template <class C> __global__ void fft_block_kernel(Job job, Radices radices) {
  wait_for_previous_kernel();
  MANTISSA_SHARED(Complex<C>, memory);
  const std::int64_t row = blockIdx.x, n = job.n;
  Complex<C>*from = memory, *to = memory + n;
  for (std::int64_t j = threadIdx.x; j < n; j += blockDim.x) from[j] = load_number<C>(job, row, j);
  __syncthreads();
  std::int64_t stride = 1;
  for (int pass = 0; pass < radices.count; ++pass) {
    const int r = radices.radix[pass];
    for (std::int64_t i = threadIdx.x; i < n / r; i += blockDim.x) transform_group(to, from, n, r, stride, i);
    __syncthreads();
    Complex<C>* const old = from;
    from = to;
    to = old;
    stride *= r;
  }
  for (std::int64_t k = threadIdx.x; k < n; k += blockDim.x) store_number(job, row, k, from[k]);
}

template <class C>
__global__ void fft_pass_kernel(Complex<C>* y, const Complex<C>* x, std::int64_t rows, std::int64_t n, int r,
                                std::int64_t stride) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x, groups = n / r;
  if (i >= rows * groups) return;
  const std::int64_t row = i / groups;
  transform_group(y + row * n, x + row * n, n, r, stride, i - row * groups);
}

// exp(-pi i j^2 / n)
template <class C> __device__ Complex<C> chirp(std::int64_t j, std::int64_t n) {
  return root_of<C>(j * j % (2 * n), 2 * n);
}
// Loads rows of m numbers: those of x, multiplied by the chirp if m is not n, padded with zeros.
template <class C> __global__ void fft_load_kernel(Complex<C>* to, Job job, std::int64_t m) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= job.rows * m) return;
  const std::int64_t row = i / m, j = i - row * m;
  Complex<C> v{C(0), C(0)};
  if (j < job.n) v = load_number<C>(job, row, j);
  to[i] = m == job.n || j >= job.n ? v : v * chirp<C>(j, job.n);
}
// The convolution kernel: the conjugate chirp, at j and -j.
template <class C> __global__ void fft_chirp_kernel(Complex<C>* to, std::int64_t n, std::int64_t m) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= m) return;
  const std::int64_t j = i < n ? i : m - i;
  Complex<C> v{C(0), C(0)};
  if (j < n) v = chirp<C>(j, n);
  to[i] = {v.re, -v.im};
}
// The conjugate of x times the spectrum, so that a forward transform computes the inverse.
template <class C>
__global__ void fft_multiply_kernel(Complex<C>* x, const Complex<C>* spectrum, std::int64_t rows, std::int64_t m) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= rows * m) return;
  const Complex<C> v = x[i] * spectrum[i % m];
  x[i] = {v.re, -v.im};
}
template <class C> __global__ void fft_store_kernel(Job job, const Complex<C>* from, std::int64_t m) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= job.rows * job.n) return;
  const std::int64_t row = i / job.n, k = i - row * job.n;
  Complex<C> v = from[row * m + k];
  if (m != job.n) v = Complex<C>{v.re / static_cast<C>(m), -v.im / static_cast<C>(m)} * chirp<C>(k, job.n);
  store_number(job, row, k, v);
}

// --- host ---
Radices radices_of(std::int64_t n) {
  Radices all;
  for (const int r : {7, 5, 3, 4, 2})
    for (; n % r == 0; n /= r) all.radix[all.count++] = r;
  return all;
}

// Transforms rows of m numbers; returns which of the two buffers holds the result.
template <class C> Complex<C>* run_passes(Complex<C>* x, Complex<C>* room, std::int64_t rows, std::int64_t m) {
  std::int64_t stride = 1;
  const Radices radices = radices_of(m);
  for (int pass = 0; pass < radices.count; ++pass) {
    const int r = radices.radix[pass];
    launch("fft", &fft_pass_kernel<C>, grid_for(rows * (m / r)), room, x, rows, m, r, stride);
    std::swap(x, room);
    stride *= r;
  }
  return x;
}

template <class C> void run_job(const Job& job, Device device) {
  const std::int64_t n = job.n;
  const bool direct = fourier::is_smooth(n, largest_radix);
  if (direct && 2 * n * sizeof(Complex<C>) <= shared_of_every_kernel) {
    Grid grid = grid_for_rows(job.rows, (n + 3) / 4, block_size);
    grid.shared = 2 * static_cast<std::size_t>(n) * sizeof(Complex<C>);
    return launch("fft", &fft_block_kernel<C>, grid, job, radices_of(n));
  }
  check(n < (std::int64_t{1} << 30), "internal error: fft: rows of ", n, " elements");
  const std::int64_t m = direct ? n : fourier::convolution_length(n);
  const auto room = [&](std::int64_t count) { return Tensor::allocate({2 * count}, dtype_of<C>, device); };
  const auto numbers = [](const Tensor& t) { return static_cast<Complex<C>*>(t.raw_data()); };
  const Tensor a = room(job.rows * m), b = room(job.rows * m);
  launch("fft", &fft_load_kernel<C>, grid_for(job.rows * m), numbers(a), job, m);
  Complex<C>* x = run_passes(numbers(a), numbers(b), job.rows, m);
  if (!direct) {
    const Tensor c = room(m), d = room(m);
    launch("fft", &fft_chirp_kernel<C>, grid_for(m), numbers(c), n, m);
    const Complex<C>* const spectrum = run_passes(numbers(c), numbers(d), 1, m);
    launch("fft", &fft_multiply_kernel<C>, grid_for(job.rows * m), x, spectrum, job.rows, m);
    x = run_passes(x, x == numbers(a) ? numbers(b) : numbers(a), job.rows, m);
  }
  launch("fft", &fft_store_kernel<C>, grid_for(job.rows * n), job, static_cast<const Complex<C>*>(x), m);
}

Side side_of(const View& v, bool pairs) {
  Dims sizes = v.sizes, strides = v.strides;
  Side s{v.data, v.dtype, {}, 1, 0};
  const auto take = [&] {
    const std::int64_t stride = strides.back();
    sizes.erase(sizes.rank() - 1), strides.erase(strides.rank() - 1);
    return stride;
  };
  if (pairs) s.part = take();
  s.step = take();
  s.row = Offsets(sizes, strides);
  return s;
}
void run(Kind kind, const View& y, const View& x, std::int64_t n, bool inverse, double scale, double between) {
  if (x.numel() == 0 || y.numel() == 0) return;
  const std::int64_t rows =
      kind == Kind::real_inverse ? y.numel() / n : x.numel() / (kind == Kind::complex ? 2 * n : n);
  const Job job{
      kind, n, rows, inverse, scale, between, side_of(x, kind != Kind::real), side_of(y, kind != Kind::real_inverse)};
  if (y.dtype == f64) run_job<double>(job, y.device);
  else run_job<float>(job, y.device);
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

}  // namespace mantissa::cuda_backend
