// Moves elements: copies with conversion, also between host and device, fill, and the in-place updates that accumulate
// gradients. Mirrors core/cpu/copy.cpp.
#include <mutex>
#include <set>
#include <utility>

#include "core/kernel.h"
#include "core/memory_order.h"
#include "core/sync_debug.h"
#include "core/visit_word.h"
#include "cuda/elementwise.cuh"
#include "cuda/recorded_memory.h"
#include "cuda/transpose.h"

namespace mantissa {
MANTISSA_KERNEL(copy, const View& y, const View& x)
MANTISSA_KERNEL(fill, const View& y, double value)
MANTISSA_KERNEL(add_in_place, const View& y, const View& x, double alpha)
MANTISSA_KERNEL(mul_in_place, const View& y, const View& x)
}

namespace mantissa::cuda_backend {
namespace {

struct Identity {
  template <class T> MANTISSA_HD T f(T x) const { return x; }
};
struct AddScaled {
  double alpha;
  template <class T> MANTISSA_HD T f(T y, T x) const { return y + static_cast<T>(alpha) * x; }
};
struct Multiply {
  template <class T> MANTISSA_HD T f(T y, T x) const { return y * x; }
};

// --- elements of the same dtype are moved as plain words of their size ---
template <class Word> __global__ void copy_words_kernel(Walk<1> walk) {
  wait_for_previous_kernel();
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < walk.count; i += gridDim.x * blockDim.x) {
    std::int64_t at[2];
    walk.offsets(i, at);
    static_cast<Word*>(walk.operand[0].data)[at[0]] = static_cast<const Word*>(walk.operand[1].data)[at[1]];
  }
}
// A copy between different memory orders has its own kernel name, because it is slower, and in a network that keeps its
// layout no image should need one.
const char* name_of_copy(const ElementwiseLoop& loop) {
  const std::int64_t y = loop.strides[0].back(), x = loop.strides[1].back();
  return loop.sizes.rank() > 1 && !loop.operand[1].constant && x > 0 && (y == 1) != (x == 1) ? "rearrange" : "copy";
}
template <class Word> void launch_copy(const ElementwiseLoop& part) {
  const Walk<1> walk = walk_of<1>(part);
  launch(name_of_copy(part), &copy_words_kernel<Word>, grid_for(walk.count, 4), walk);
}

// Merges elements into 16-byte words if rows are contiguous and 16-byte aligned in both.
bool widen_to_16_bytes(ElementwiseLoop& loop, std::int64_t size) {
  const int inner = loop.sizes.rank() - 1;
  const std::int64_t per = 16 / size;
  if (loop.sizes[inner] % per != 0) return false;
  for (int k = 0; k < 2; ++k) {
    bool fits = loop.strides[k][inner] == 1 && reinterpret_cast<std::uintptr_t>(loop.operand[k].data) % 16 == 0;
    for (int d = 0; d < inner; ++d) fits = fits && loop.strides[k][d] % per == 0;
    if (!fits) return false;
  }
  loop.sizes[inner] /= per;
  for (int k = 0; k < 2; ++k) {
    for (int d = 0; d < inner; ++d) loop.strides[k][d] /= per;
  }
  return true;
}
void copy_words(const ElementwiseLoop& loop) {
  for_indexable_parts(loop, [](const void*, const ElementwiseLoop& part) {  // split before words are merged
    const Dtype dtype = part.operand[0].dtype;
    ElementwiseLoop wide = part;
    if (widen_to_16_bytes(wide, static_cast<std::int64_t>(size_of(dtype)))) return launch_copy<uint4>(wide);
    visit_word(dtype, [&]<class Word>() { launch_copy<Word>(part); });
  }, nullptr);
}

bool same_layout(const View& y, const View& x) {
  return y.sizes == x.sizes && is_dense(y) && is_dense(x) && y.layout() == x.layout();
}

// Whether the driver copies or fills these bytes. In a captured step a kernel is preferred for few, because it may
// overlap with its neighbours (cuda/launch.cuh).
bool left_to_driver(std::size_t bytes) { return !records_here() || bytes > std::size_t{1} << 20; }

void copy_on_device(const View& y, const View& x) {
  const std::size_t bytes = static_cast<std::size_t>(y.numel()) * size_of(y.dtype);
  if (x.dtype == y.dtype && same_layout(y, x) && x.device.is_cuda() && left_to_driver(bytes)) {
    note_use(y.data), note_use(x.data);
    return check_status(cudaMemcpyAsync(y.data, x.data, bytes, cudaMemcpyDeviceToDevice, stream()), "copy");
  }
  const View* inputs[] = {&x};
  const ElementwiseLoop loop = plan_elementwise(y, inputs);
  if (can_transpose(loop))
    return for_indexable_parts(loop, [](const void*, const ElementwiseLoop& part) { transpose(part); }, nullptr);
  if (x.dtype == y.dtype && x.device.is_cuda()) return copy_words(loop);
  const Dtype a = compute_dtype(x.dtype), b = compute_dtype(y.dtype);
  const bool small = x.dtype == u8 || x.dtype == boolean;  // exact in f32
  if (a == i64 && b == i64) launch_elementwise<Identity, std::int64_t, 1>(name_of_copy(loop), {}, loop);
  else if (b == f32 && (a == f32 || small)) launch_elementwise<Identity, float, 1>(name_of_copy(loop), {}, loop);
  else launch_elementwise<Identity, double, 1>(name_of_copy(loop), {}, loop);
}

// --- between host and device: converted, and made dense in the other side's layout, at the source ---
Tensor dense_host(const View& x, Dtype dtype, Layout layout) {
  Tensor t = Tensor::allocate(x.sizes, dtype, cpu, layout);
  kernels::copy(cpu, t.view(), x);
  return t;
}
void copy_to_device(const View& y, const View& x) {
  if (x.numel() == 1) {  // passed with the launch, which a graph would repeat with the same value
    if (!x.weak_scalar) check_can_copy_to_or_from_host();
    return copy_on_device(y, x);
  }
  Tensor host;
  View from = x;
  if (x.dtype != y.dtype || !is_dense(x) || x.layout() != y.layout())
    host = dense_host(x, y.dtype, y.layout()), from = host.view();
  const auto bytes = static_cast<std::size_t>(from.numel()) * size_of(y.dtype);
  if (same_layout(y, from)) return copy_bytes(y.data, y.device, from.data, cpu, bytes);
  const Tensor there = Tensor::allocate(from.sizes, y.dtype, y.device, from.layout());
  copy_bytes(there.raw_data(), y.device, from.data, cpu, bytes);
  copy_on_device(y, there.view());
}
void copy_to_host(const View& y, const View& x) {
  note_host_read(x.dtype, x.sizes, x.device);
  Tensor there;
  View from = x;
  if (!is_dense(x) || x.layout() != y.layout()) {
    there = Tensor::allocate(x.sizes, x.dtype, x.device, y.layout());
    from = there.view();
    copy_on_device(from, x);
  }
  const auto bytes = static_cast<std::size_t>(from.numel()) * size_of(x.dtype);
  if (y.dtype == x.dtype && same_layout(y, from)) return copy_bytes(y.data, cpu, from.data, x.device, bytes);
  const Tensor here = Tensor::allocate(x.sizes, x.dtype, cpu, from.layout());
  copy_bytes(here.raw_data(), cpu, from.data, x.device, bytes);
  kernels::copy(cpu, y, here.view());
}

// Lets one GPU read another's memory where it can; else the driver copies through the host.
void connect(int here, int peer) {
  static std::mutex mutex;
  static std::set<std::pair<int, int>>& known = *new std::set<std::pair<int, int>>;
  const std::lock_guard lock(mutex);
  if (!known.emplace(here, peer).second) return;
  int can = 0;
  const bool asked = cudaDeviceCanAccessPeer(&can, here, peer) == cudaSuccess;
  if (!asked || (can && cudaDeviceEnablePeerAccess(peer, 0) != cudaSuccess))
    (void)cudaGetLastError();  // someone else has enabled it, or too many are connected
}
// Between GPUs: after all that either has been given, and before what it is given later. The host does not wait.
void copy_between_devices(const View& y, const View& x) {
  const auto refuse_capture = [] {
    check(!is_capturing(), "a step that is captured must not copy between GPUs; move that out of the step");
  };
  activate(x.device);
  refuse_capture();
  Tensor packed;
  View from = x;
  if (x.dtype != y.dtype || !same_layout(y, x)) {  // converted, and made dense, at the source
    packed = Tensor::allocate(x.sizes, y.dtype, x.device, y.layout());
    from = packed.view();
    copy_on_device(from, x);
  }
  Event made;
  made.record();
  activate(y.device);
  refuse_capture();
  connect(y.device.index, x.device.index);
  Event copied;
  made.make_stream_wait();
  Tensor landed;
  View to = y;
  if (!same_layout(y, from)) {
    landed = Tensor::allocate(x.sizes, y.dtype, y.device, from.layout());
    to = landed.view();
  }
  const auto bytes = static_cast<std::size_t>(from.numel()) * size_of(from.dtype);
  check_status(cudaMemcpyPeerAsync(to.data, y.device.index, from.data, x.device.index, bytes, stream()),
               "copying between GPUs");
  copied.record();
  if (landed.defined()) copy_on_device(y, to);
  activate(x.device);
  copied.make_stream_wait();  // x, or its copy, may be freed: the memory serves what this stream does later
  activate(y.device);
}

template <class F> void update(const char* name, const View& y, const View& x, const F& f) {
  const View* inputs[] = {&y, &x};
  const ElementwiseLoop loop = plan_elementwise(y, inputs);
  if (y.numel() == 0) return;
  visit_compute_any(y.dtype, [&]<class C>() { launch_elementwise<F, C, 2>(name, f, loop); });
}

}  // namespace

void copy(const View& y, const View& x) {
  if (y.numel() == 0) return;
  if (y.device.is_cpu()) return copy_to_host(y, x);
  if (x.device.is_cpu()) return copy_to_device(y, x);
  if (y.device == x.device) return copy_on_device(y, x);
  copy_between_devices(y, x);
}

void fill(const View& y, double value) {
  if (y.numel() == 0) return;
  const std::size_t bytes = static_cast<std::size_t>(y.numel()) * size_of(y.dtype);
  if (value == 0 && !std::signbit(value) && is_dense(y) && left_to_driver(bytes)) {
    note_use(y.data);
    return check_status(cudaMemsetAsync(y.data, 0, bytes, stream()), "fill");
  }
  copy_on_device(y, View{&value, {}, {}, f64, cpu});
}

void add_in_place(const View& y, const View& x, double alpha) { update("add_in_place", y, x, AddScaled{alpha}); }
void mul_in_place(const View& y, const View& x) { update("mul_in_place", y, x, Multiply{}); }

}  // namespace mantissa::cuda_backend
