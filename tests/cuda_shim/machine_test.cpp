// The machine that runs CUDA kernels on the CPU, shown to find what it is for: results that depend on
// the order of threads, barriers that not all reach, uninitialised shared memory, hosts that do not wait.
#include <vector>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

#include "cuda/launch.cuh"
#include "cuda/reduce.cuh"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::cuda_backend;
using cuda_shim::Order;

namespace {

__global__ void sum_kernel(const float* x, float* y, int n) {
  __shared__ float scratch[32];
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) sum += x[blockIdx.x * n + i];
  sum = fold_block<Sum>(sum, scratch);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
__global__ void missing_barrier_kernel(int* y) {
  __shared__ int value[64];
  value[threadIdx.x] = static_cast<int>(threadIdx.x);
  y[threadIdx.x] = value[63 - threadIdx.x];
}
__global__ void divergent_kernel(int* y) {
  if (threadIdx.x < 16) __syncthreads();
  y[threadIdx.x] = 1;
}
__global__ void lonely_shuffle_kernel(int* y) {
  int v = static_cast<int>(threadIdx.x);
  if (v < 16) v = __shfl_xor_sync(0xffffffffu, v, 8);
  y[threadIdx.x] = v;
}
__global__ void uninitialised_kernel(float* y) {
  MANTISSA_SHARED(float, s);
  if (threadIdx.x != 5) s[threadIdx.x] = 1;
  __syncthreads();
  y[threadIdx.x] = s[(threadIdx.x + 1) % 32];
}
__global__ void add_kernel(int* y, int v) { y[threadIdx.x] += v; }

class Buffer {
 public:
  explicit Buffer(std::int64_t n, Dtype t) : t_(zeros({n}, {.dtype = t, .device = cuda})) {}
  template <class T> T* data() const { return static_cast<T*>(t_.raw_data()); }
  std::vector<double> values() const { return t_.to_vector<double>(); }

 private:
  Tensor t_;
};
void restart() { cuda_shim::forget_errors(); }

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// Whether a sanitizer stops a child process that does f. What it reports goes nowhere: it is expected.
template <class F> bool is_reported(F&& f) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(open("/dev/null", O_WRONLY), 2);
    f();
    _exit(0);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  return status != 0;
}
#endif

}  // namespace

TEST_CASE("a block's sum is the same in every order of threads") {
  std::vector<float> x(3 * 1000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 17) - 8;
  const Tensor in = from_data<float>(x, {3000}).to(cuda);
  std::vector<double> first;
  for (Order order : {Order::forward, Order::reverse, Order::random}) {
    cuda_shim::set_order(order, 7);
    const Buffer y(3, f32);
    launch("sum", &sum_kernel, {3, 256}, in.data<float>(), y.data<float>(), 1000);
    if (first.empty()) first = y.values();
    CHECK(y.values() == first);
  }
  cuda_shim::set_order(Order::forward);
  double expected = 0;
  for (int i = 0; i < 1000; ++i) expected += i % 17 - 8;
  CHECK(first[0] == expected);
}

#if defined(__SANITIZE_THREAD__)
TEST_CASE("ThreadSanitizer reports a missing barrier, and nothing where there is one") {
  const Buffer y(64, i32);
  CHECK(is_reported([&] { launch("missing", &missing_barrier_kernel, {1, 64}, y.data<int>()); }));
  CHECK(!is_reported([&] { launch("add", &add_kernel, {1, 64}, y.data<int>(), 1); }));
}
#else
TEST_CASE("a missing barrier changes the result with the order of threads") {
  std::vector<std::vector<double>> results;
  for (Order order : {Order::forward, Order::reverse}) {
    cuda_shim::set_order(order);
    const Buffer y(64, i32);
    launch("missing", &missing_barrier_kernel, {1, 64}, y.data<int>());
    results.push_back(y.values());
  }
  cuda_shim::set_order(Order::forward);
  CHECK(results[0] != results[1]);
}
#endif

#if defined(__SANITIZE_ADDRESS__)
TEST_CASE("AddressSanitizer reports a kernel that writes behind a tensor") {
  const Buffer y(30, i32);  // in a block of 128 bytes
  CHECK(is_reported([&] { launch("add", &add_kernel, {1, 31}, y.data<int>(), 1); }));
  CHECK(!is_reported([&] { launch("add", &add_kernel, {1, 30}, y.data<int>(), 1); }));
}
#endif

TEST_CASE("a barrier that some threads never reach is an error, and the device is lost") {
  const Buffer y(32, i32);
  CHECK_THAT(test::message_of([&] { launch("divergent", &divergent_kernel, {1, 32}, y.data<int>()); }),
             Catch::Matchers::Contains("divergent barrier") && Catch::Matchers::Contains("16 threads at __syncthreads"));
  CHECK_THAT(test::message_of([&] { synchronize(cuda); }), Catch::Matchers::Contains("restart"));
  restart();
  CHECK(cuda_shim::launch(stream(), [p = y.data<int>()] { lonely_shuffle_kernel(p); }, 1, 32, 0) == cudaErrorLaunchFailure);
  CHECK_THAT(cudaGetErrorString(cudaErrorLaunchFailure), Catch::Matchers::Contains("16 in a warp operation"));
  restart();
}

TEST_CASE("shared memory that was not written is NaN") {
  const Buffer y(32, f32);
  Grid grid{1, 32, 32 * sizeof(float)};
  launch("uninitialised", &uninitialised_kernel, grid, y.data<float>());
  CHECK(std::isnan(y.values()[4]));
  CHECK(y.values()[5] == 1);
}

TEST_CASE("late work: what one stream does is seen by another only through an event") {
  cuda_shim::set_late(true, 3);
  const Buffer y(8, i32);
  wait_for_stream();
  Stream other;
  launch("add", &add_kernel, {1, 8}, y.data<int>(), 1);
  Event done;
  done.record();
  {
    const StreamScope scope(other.get());
    done.make_stream_wait();
    launch("add", &add_kernel, {1, 8}, y.data<int>(), 10);
    other.wait();
  }
  CHECK(y.values() == std::vector<double>(8, 11));
  cuda_shim::set_late(false);
}

TEST_CASE("late work: copies read and write host memory when their turn comes") {
  cuda_shim::set_late(true, 3);
  const Buffer y(8, i32);
  wait_for_stream();
  auto* pinned = static_cast<int*>(allocate_pinned(64));
  for (int i = 0; i < 16; ++i) pinned[i] = i;
  REQUIRE(cudaMemcpyAsync(y.data<int>(), pinned, 32, cudaMemcpyHostToDevice, stream()) == cudaSuccess);
  pinned[3] = 77;  // too early: the copy has not been waited for
  REQUIRE(cudaMemcpyAsync(pinned + 8, y.data<int>(), 32, cudaMemcpyDeviceToHost, stream()) == cudaSuccess);
  CHECK(pinned[8 + 3] == 11);  // too early as well
  wait_for_stream();
  CHECK(pinned[8 + 3] == 77);
  cuda_shim::set_late(false);
  deallocate_pinned(pinned, 64);
}

TEST_CASE("late work: a stream that is destroyed leaves its work to be done") {
  cuda_shim::set_late(true, 3);
  const Buffer y(8, i32);
  wait_for_stream();
  cudaStream_t s = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) == cudaSuccess);
  {
    const StreamScope scope(s);
    launch("add", &add_kernel, {1, 8}, y.data<int>(), 5);
  }
  REQUIRE(cudaStreamDestroy(s) == cudaSuccess);
  synchronize(cuda);
  CHECK(y.values() == std::vector<double>(8, 5));
  {  // ours waits: its address, and with it blocks of memory, may soon be another's
    Stream ours;
    const StreamScope scope(ours.get());
    launch("add", &add_kernel, {1, 8}, y.data<int>(), 5);
  }
  int now = 0;
  { const cuda_shim::DeviceAccess access; now = *y.data<int>(); }
  CHECK(now == 10);
  cuda_shim::set_late(false);
}

TEST_CASE("a launch that does not fit is refused with its name") {
  const Buffer y(8, i32);
  CHECK_THAT(test::message_of([&] { launch("too wide", &add_kernel, {1, 2048}, y.data<int>(), 1); }),
             Catch::Matchers::Contains("too wide: cudaErrorInvalidConfiguration"));
  launch("add", &add_kernel, {1, 8}, y.data<int>(), 1);  // the next one runs
  CHECK(y.values() == std::vector<double>(8, 1));
}
