// The machine that runs CUDA kernels on the CPU, shown to find what it is for: results that depend on
// the order of threads, barriers that not all reach, uninitialised shared memory, hosts that do not wait; and to refuse
// what a GPU refuses: addresses that are not aligned, launches that do not fit, pointers to memory of the host.
#include <vector>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

#include "cuda/launch.cuh"
#include "cuda/ptx.cuh"
#include "cuda/reduce.cuh"
#include "cuda/vec.cuh"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::cuda_backend;
using cuda_shim::Order;

namespace {

__global__ void sum_kernel(const float* x, float* y, int n) {
  wait_for_previous_kernel();
  __shared__ float scratch[32];
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) sum += x[blockIdx.x * n + i];
  sum = fold_block<Sum>(sum, scratch);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
__global__ void hasty_kernel(int* y) {  // only some threads wait for what was before
  if (threadIdx.x < 16) wait_for_previous_kernel();
  y[threadIdx.x] = 1;
}
__global__ void missing_barrier_kernel(int* y) {
  wait_for_previous_kernel();
  __shared__ int value[64];
  value[threadIdx.x] = static_cast<int>(threadIdx.x);
  y[threadIdx.x] = value[63 - threadIdx.x];
}
__global__ void divergent_kernel(int* y) {
  wait_for_previous_kernel();
  if (threadIdx.x < 16) __syncthreads();
  y[threadIdx.x] = 1;
}
__global__ void lonely_shuffle_kernel(int* y) {
  wait_for_previous_kernel();
  int v = static_cast<int>(threadIdx.x);
  if (v < 16) v = __shfl_xor_sync(0xffffffffu, v, 8);
  y[threadIdx.x] = v;
}
__global__ void uninitialised_kernel(float* y) {
  wait_for_previous_kernel();
  MANTISSA_SHARED(float, s);
  if (threadIdx.x != 5) s[threadIdx.x] = 1;
  __syncthreads();
  y[threadIdx.x] = s[(threadIdx.x + 1) % 32];
}
__global__ void two_barriers_kernel(int* y) {
  wait_for_previous_kernel();
  if (threadIdx.x < 16) {
    y[threadIdx.x] = 1;
    __syncthreads();
  } else {
    __syncthreads();
    y[threadIdx.x] = 2;
  }
}
__global__ void stranger_shuffle_kernel(int* y) {  // asks lanes above 15, which do not take part
  wait_for_previous_kernel();
  const int v = static_cast<int>(threadIdx.x);
  y[v] = v < 16 ? __shfl_sync(0xffffu, v, v + 16) : v;
}
__global__ void uninitialised_static_kernel(float* y) {
  wait_for_previous_kernel();
  __shared__ float s[32];
  if (blockIdx.x == 0 || threadIdx.x != 5) s[threadIdx.x] = 1;  // block 1 would find what block 0 left
  __syncthreads();
  if (blockIdx.x == 1) y[threadIdx.x] = s[(threadIdx.x + 1) % 32];
}
// Eight elements as cuda/vec.cuh moves them, four as a vector of CUDA's, one atomic, and
// the instructions of cuda/ptx.cuh.
__global__ void packs_kernel(float* y) {
  wait_for_previous_kernel();
  float v[pack];
  load_pack(v, y, f32, 0);
  store_pack(y, f32, 8, v);
}
[[maybe_unused]] __global__ void vector_kernel(float* y) {
  wait_for_previous_kernel();
  *reinterpret_cast<float4*>(y) = make_float4(1, 2, 3, 4);
}
__global__ void pair_kernel(float* y) {
  wait_for_previous_kernel();
  *reinterpret_cast<float2*>(y) = make_float2(1, 2);
}
[[maybe_unused]] __global__ void odd_float_kernel(char* y) {
  wait_for_previous_kernel();
  *reinterpret_cast<float*>(y) = 1;
}
__global__ void atomic_kernel(char* y) {
  wait_for_previous_kernel();
  atomicAdd(reinterpret_cast<int*>(y), 1);
}
__global__ void copy_async_kernel(const Half* x, int skip) {
  wait_for_previous_kernel();
  MANTISSA_SHARED(char, s);
  ptx::copy_async_16(s + skip, x, 16);
  ptx::copy_async_commit();
  ptx::copy_async_wait<0>();
}
__global__ void load_matrices_kernel(int skip) {
  wait_for_previous_kernel();
  MANTISSA_SHARED(char, s);
  std::uint32_t r[4];
  ptx::load_matrices<false>(r, s + 16 * threadIdx.x + skip);
}
__global__ void shared_kernel(float* y) {
  wait_for_previous_kernel();
  MANTISSA_SHARED(float, s);
  s[threadIdx.x] = 1;
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x];
}
__global__ void both_shared_kernel(float* y) {
  wait_for_previous_kernel();
  MANTISSA_SHARED(float, s);
  __shared__ float more[256];
  more[threadIdx.x] = s[threadIdx.x] = 1;
  __syncthreads();
  y[threadIdx.x] = more[255 - threadIdx.x] + s[threadIdx.x];
}
// Its name is that of a kernel in cuda/kernel_resources.txt with 255 registers.
__global__ void attention_dkv_kernel(float* y) {
  wait_for_previous_kernel();
  y[threadIdx.x] = 1;
}
struct Described {
  int n;
  const float* data;
};
[[maybe_unused]] __global__ void described_kernel(float* y, Described d) {
  wait_for_previous_kernel();
  y[threadIdx.x] = d.data[d.n];
}
__global__ void add_kernel(int* y, int v) {
  wait_for_previous_kernel();
  y[threadIdx.x] += v;
}

class Buffer {
 public:
  explicit Buffer(std::int64_t n, Dtype t) : t_(zeros({n}, {.dtype = t, .device = cuda})) {}
  template <class T> T* data() const { return static_cast<T*>(t_.raw_data()); }
  std::vector<double> values() const { return t_.to_vector<double>(); }

 private:
  Tensor t_;
};
void restart() { cuda_shim::forget_errors(); }
// What a launch of a kernel says that the GPU does not survive.
template <class... P, class... A>
std::string message_of_launch(const Grid& grid, void (*kernel)(P...), const A&... arguments) {
  std::string message = test::message_of([&] { launch("planted", kernel, grid, arguments...); });
  if (const cudaError_t e = cudaPeekAtLastError(); e != cudaSuccess) {  // stays, and is told once only
    message += std::string(cudaGetErrorName(e)) + ": " + cudaGetErrorString(e);
  }
  restart();
  return message;
}

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
  CHECK_THAT(
      test::message_of([&] {
        launch("divergent", &divergent_kernel, {1, 32}, y.data<int>());
      }),
      Catch::Matchers::Contains("divergent barrier") && Catch::Matchers::Contains("16 threads at __syncthreads"));
  CHECK_THAT(test::message_of([&] { synchronize(cuda); }), Catch::Matchers::Contains("restart"));
  restart();
  CHECK_THAT(message_of_launch(Grid{1, 32}, &lonely_shuffle_kernel, y.data<int>()),
             Catch::Matchers::Contains("16 in a warp operation"));
  CHECK_THAT(message_of_launch(Grid{1, 32}, &two_barriers_kernel, y.data<int>()),
             Catch::Matchers::Contains("wait in different __syncthreads"));
  CHECK_THAT(message_of_launch(Grid{1, 32}, &stranger_shuffle_kernel, y.data<int>()),
             Catch::Matchers::Contains("a lane that its mask does not name"));
}

TEST_CASE("a thread that does not wait for the kernel before its own is an error") {
  const Buffer y(32, i32);
  CHECK_THAT(message_of_launch(Grid{2, 32}, &hasty_kernel, y.data<int>()),
             Catch::Matchers::Contains("64 threads called wait_for_previous_kernel() 32 times"));
}

TEST_CASE("shared memory that was not written is NaN") {
  const Buffer y(32, f32);
  Grid grid{1, 32, 32 * sizeof(float)};
  launch("uninitialised", &uninitialised_kernel, grid, y.data<float>());
  CHECK(std::isnan(y.values()[4]));
  CHECK(y.values()[5] == 1);
}

TEST_CASE("static shared memory that was not written is NaN, also where the block before wrote it") {
  const Buffer y(32, f32);
  launch("uninitialised", &uninitialised_static_kernel, {2, 32}, y.data<float>());
  CHECK(std::isnan(y.values()[4]));
  CHECK(y.values()[5] == 1);
}

TEST_CASE("an access that is not aligned ends the kernel, and says where") {
  const auto misaligned = [](const std::string& message, const char* what) {
    CHECK_THAT(message, Catch::Matchers::Contains("cudaErrorMisalignedAddress") &&
                            Catch::Matchers::Contains("misaligned address 0x") && Catch::Matchers::Contains(what));
  };
  const Buffer y(64, f32), h(64, f16);
  const auto fine = [](const std::string& message) { CHECK(message == ""); };
  float* p = y.data<float>();
  char* bytes = y.data<char>();
  // With a sanitizer UndefinedBehaviorSanitizer stops the test, or nobody looks. clang leaves out copies of structs.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
  misaligned(message_of_launch({1, 1}, &packs_kernel, p + 1), "access at vec.cuh:");
  misaligned(message_of_launch({1, 1}, &packs_kernel, p + 2), "access at");
  misaligned(message_of_launch({1, 1}, &vector_kernel, p + 2), "access at");
  misaligned(message_of_launch({1, 1}, &pair_kernel, p + 1), "access at machine_test.cpp:");
  misaligned(message_of_launch({1, 1}, &odd_float_kernel, bytes + 2), "access at");
#endif
  misaligned(message_of_launch({1, 1}, &atomic_kernel, bytes + 2), "atomic operation");
  misaligned(message_of_launch({1, 1, 64}, &copy_async_kernel, h.data<Half>() + 4, 0), "source of cp.async");
  misaligned(message_of_launch({1, 1, 64}, &copy_async_kernel, h.data<Half>(), 8), "place of cp.async");
  misaligned(message_of_launch({1, 32, 528}, &load_matrices_kernel, 8), "row of ldmatrix");
  fine(message_of_launch({1, 1}, &packs_kernel, p + 4));
  fine(message_of_launch({1, 1}, &pair_kernel, p + 2));
  fine(message_of_launch({1, 1}, &atomic_kernel, bytes + 4));
  fine(message_of_launch({1, 1, 64}, &copy_async_kernel, h.data<Half>() + 8, 16));
  fine(message_of_launch({1, 32, 528}, &load_matrices_kernel, 0));
}

TEST_CASE("an instruction of a whole warp is refused to a part of one") {
  CHECK_THAT(message_of_launch({1, 16, 528}, &load_matrices_kernel, 0),
             Catch::Matchers::Contains("ldmatrix in a warp without all its lanes"));
}

TEST_CASE("a pointer to memory of the host, or of another GPU, is refused") {
#if !defined(__SANITIZE_ADDRESS__)  // device memory is ordinary memory there
  const auto illegal = [](const std::string& message, const char* what) {
    CHECK_THAT(message, Catch::Matchers::Contains("cudaErrorIllegalAddress") && Catch::Matchers::Contains(what) &&
                            Catch::Matchers::Contains("memory of the host or of another GPU"));
  };
  const Buffer y(32, f32);
  const std::vector<float> heap(128, 1);
  float stack[128] = {};
  // Where a word of a struct is taken for a pointer (launch.cpp); ThreadSanitizer's heap begins where it is not.
  const auto low_half = [](const float* p) { return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(p)); };
  const float* of_host = low_half(heap.data()) >> 24 != 0 ? heap.data() : stack;
  while (low_half(of_host) % 256 != 64) ++of_host;
  illegal(message_of_launch({1, 32}, &shared_kernel, &stack[0]), "shared_kernel: parameter 0");
  illegal(message_of_launch({1, 32}, &described_kernel, y.data<float>(), Described{3, of_host}), "parameter 1");
  void* pinned = allocate_pinned(128);  // this a GPU can read
  CHECK(message_of_launch({1, 32}, &described_kernel, y.data<float>(), Described{3, static_cast<float*>(pinned)}) ==
        "");
  wait_for_stream();
  deallocate_pinned(pinned, 128);
  cuda_shim::set_device_count(2);
  const Tensor there = empty({6 << 20}, {.device = cuda(1)});  // so large that some of its addresses look like pointers
  (void)y.values();                                            // makes the first one current again
  const float* of_other = there.data<float>() + 5;
  if (low_half(of_other) >> 24 == 0) of_other += 5 << 20;
  illegal(message_of_launch({1, 32}, &described_kernel, y.data<float>(), Described{3, of_other}), "parameter 1");
  cuda_shim::set_device_count(1);
#endif
}

TEST_CASE("shared memory: more than 48 KiB has to be asked for, and more than 227 KiB is not there") {
  const Buffer y(256, f32);
  const auto grid = [](std::size_t shared) { return Grid{1, 256, shared}; };
  CHECK(message_of_launch(grid(48 * 1024), &shared_kernel, y.data<float>()) == "");
  CHECK(message_of_launch(grid(227 * 1024), &shared_kernel, y.data<float>()) == "");  // launch() asks
  CHECK_THAT(message_of_launch(grid(227 * 1024 + 16), &shared_kernel, y.data<float>()),
             Catch::Matchers::Contains(
                 "planted: a block of this kernel needs 228 KiB of shared memory, and cuda:0 has 227 KiB"));
  CHECK(message_of_launch(grid(226 * 1024), &both_shared_kernel, y.data<float>()) == "");
  CHECK_THAT(message_of_launch(grid(227 * 1024), &both_shared_kernel, y.data<float>()),
             Catch::Matchers::Contains("exceed 227 KiB"));
  const cuda_shim::Argument none{};
  const auto unasked = [&](void (*kernel)(int*, int)) {  // as the funnel would, if it forgot to ask
    return cuda_shim::launch(stream(), reinterpret_cast<const void*>(kernel), &none, [] {}, {1, 32, 48 * 1024 + 1});
  };
  CHECK(unasked(&add_kernel) == cudaErrorInvalidValue);
  CHECK_THAT(cudaGetErrorString(cudaErrorInvalidValue),
             Catch::Matchers::Contains("add_kernel: 49153 bytes of shared memory were not asked for"));
  restart();
}

TEST_CASE("registers of all threads of a block: at most 65,536") {
  const Buffer y(512, f32);
  CHECK(message_of_launch({1, 256}, &attention_dkv_kernel, y.data<float>()) == "");
  CHECK_THAT(message_of_launch({1, 288}, &attention_dkv_kernel, y.data<float>()),
             Catch::Matchers::Contains("cudaErrorLaunchOutOfResources") &&
                 Catch::Matchers::Contains("288 threads of 255 registers"));
}

TEST_CASE("the parameters of a kernel are counted as a GPU counts them") {
  struct alignas(64) Map { char bytes[128]; };
  static_assert(parameter_bytes<>() == 0 && parameter_bytes<int, double, bool>() == 17 &&
                parameter_bytes<bool, Map>() == 192);
  struct Large { char bytes[4096]; };
  // launch() does not compile with more than 4096
  static_assert(parameter_bytes<Large>() == 4096 && parameter_bytes<Large, char>() > 4096);
  CHECK_THAT(test::message_of([] { fitted<int>("softmax", std::int64_t{1} << 31); }),
             Catch::Matchers::Contains("internal error: softmax: 2147483648 is too large"));
  CHECK(fitted<int>("softmax", std::int64_t{5}) == 5);
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
#if !defined(__SANITIZE_ADDRESS__)  // device memory is ordinary memory there
  // not of the host
  CHECK(cudaMemcpyAsync(y.data<int>(), y.data<int>(), 4, cudaMemcpyHostToDevice, stream()) == cudaErrorInvalidValue);
#endif
  restart();
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
  for (const Grid& grid :
       {Grid{1, 2048}, Grid{1, dim3(32, 33)}, Grid{1, dim3(1, 1, 65)}, Grid{1, 0}, Grid{dim3(1, 0), 32},
        Grid{dim3(1, 1, 0), 32}, Grid{dim3(1, 65536), 32}, Grid{dim3(1, 1, 65536), 32}, Grid{0x80000000u, 32}}) {
    CHECK_THAT(test::message_of([&] { launch("too wide", &add_kernel, grid, y.data<int>(), 1); }),
               Catch::Matchers::Contains("too wide: cudaErrorInvalidConfiguration"));
  }
  launch("add", &add_kernel, {1, 8}, y.data<int>(), 1);  // the next one runs
  CHECK(y.values() == std::vector<double>(8, 1));
}
