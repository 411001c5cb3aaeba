// Stands in for NVIDIA's header where .cu files are compiled by a C++ compiler: the words of the
// language, the calls of the runtime that cuda/ uses, and what kernels call. Kernels run on the CPU, one
// fiber per CUDA thread (tests/cuda_shim/fibers.cpp); memory, streams, events and graphs are those of
// tests/cuda_shim/memory.cpp and streams.cpp. Add here what a new kernel needs; meaning and names are NVIDIA's.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#define __grid_constant__
#define CUDART_VERSION 13000

// --- types ---
struct uint3 { unsigned x, y, z; };
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) int4 { int x, y, z, w; };
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

// --- where a thread is ---
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;

// --- the fibers ---
namespace cuda_shim {
void block_barrier(int line);  // line: which barrier it is
void warp_barrier(unsigned mask);
// The value of each lane of `mask` goes to all of them: mine is `bytes` long, all holds 32 of these.
void warp_gather(unsigned mask, const void* mine, std::size_t bytes, void* all);
std::uint64_t warp_shuffle(unsigned mask, std::uint64_t value, int source_lane);
unsigned warp_ballot(unsigned mask, bool predicate);
// All threads of a warp come to one instruction, each with something of its own; the last one to come does the work for
// all. Lanes that meet in different instructions are an error.
using WarpWork = void (*)(unsigned warp, const void* const* lanes);
void warp_together(const char* name, WarpWork work, const void* mine);
unsigned lane();
unsigned active_lanes();
void* dynamic_shared();
void note_wait();  // by wait_for_previous_kernel() (cuda/launch.cuh)
void note_call(const char* name);  // of the runtime: tests/cuda_shim/shim.h counts them
// ends the kernel, as a GPU would
[[noreturn]] void fail_misaligned(const void* p, std::size_t bytes, const char* what);
inline void check_aligned(const void* p, std::size_t bytes, const char* what) {
  if (reinterpret_cast<std::uintptr_t>(p) % bytes != 0) fail_misaligned(p, bytes, what);
}
}  // namespace cuda_shim

inline void __syncthreads(int line = __builtin_LINE()) { cuda_shim::block_barrier(line); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { cuda_shim::warp_barrier(mask); }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline unsigned __activemask() { return cuda_shim::active_lanes(); }
inline void __nanosleep(unsigned) {}

// Inline: see wait_as in fibers.cpp.
template <class T> [[gnu::always_inline]] inline T cuda_shim_shuffle(unsigned mask, T v, int source) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &v, sizeof(T));
  bits = cuda_shim::warp_shuffle(mask, bits, source);
  std::memcpy(&v, &bits, sizeof(T));
  return v;
}
template <class T> [[gnu::always_inline]] inline T __shfl_sync(unsigned mask, T v, int source, int width = 32) {
  const int lane = static_cast<int>(cuda_shim::lane());
  return cuda_shim_shuffle(mask, v, (lane & ~(width - 1)) | (source & (width - 1)));
}
template <class T> [[gnu::always_inline]] inline T __shfl_xor_sync(unsigned mask, T v, int bits, int width = 32) {
  const int lane = static_cast<int>(cuda_shim::lane()), to = lane ^ bits;
  return cuda_shim_shuffle(mask, v, to < (lane & ~(width - 1)) + width ? to : lane);
}
template <class T> [[gnu::always_inline]] inline T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32) {
  const int lane = static_cast<int>(cuda_shim::lane()), to = lane + static_cast<int>(by);
  return cuda_shim_shuffle(mask, v, lane % width + static_cast<int>(by) < width ? to : lane);
}
template <class T> [[gnu::always_inline]] inline T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32) {
  const int lane = static_cast<int>(cuda_shim::lane());
  return cuda_shim_shuffle(mask, v, lane % width >= static_cast<int>(by) ? lane - static_cast<int>(by) : lane);
}
inline unsigned __ballot_sync(unsigned mask, int p) { return cuda_shim::warp_ballot(mask, p != 0); }
inline int __any_sync(unsigned mask, int p) { return cuda_shim::warp_ballot(mask, p != 0) != 0; }
inline int __all_sync(unsigned mask, int p) { return cuda_shim::warp_ballot(mask, p != 0) == mask; }
inline int __syncthreads_or(int p) {
  static int joined;
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) __atomic_store_n(&joined, 0, __ATOMIC_RELAXED);
  __syncthreads();
  if (p) __atomic_store_n(&joined, 1, __ATOMIC_RELAXED);
  __syncthreads();
  return __atomic_load_n(&joined, __ATOMIC_RELAXED);
}

// --- atomics ---
template <class T, class F> T cuda_shim_atomic(T* p, F f) {
  cuda_shim::check_aligned(p, sizeof(T), "atomic operation");
  T old, now;
  __atomic_load(p, &old, __ATOMIC_RELAXED);
  do now = f(old);
  while (!__atomic_compare_exchange(p, &old, &now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return old;
}
template <class T> T atomicAdd(T* p, std::type_identity_t<T> v) {
  return cuda_shim_atomic(p, [=](T x) { return static_cast<T>(x + v); });
}
template <class T> T atomicSub(T* p, std::type_identity_t<T> v) {
  return cuda_shim_atomic(p, [=](T x) { return static_cast<T>(x - v); });
}
template <class T> T atomicMax(T* p, std::type_identity_t<T> v) {
  return cuda_shim_atomic(p, [=](T x) { return x > v ? x : v; });
}
template <class T> T atomicMin(T* p, std::type_identity_t<T> v) {
  return cuda_shim_atomic(p, [=](T x) { return x < v ? x : v; });
}
template <class T> T atomicOr(T* p, std::type_identity_t<T> v) {
  return cuda_shim_atomic(p, [=](T x) { return static_cast<T>(x | v); });
}
template <class T> T atomicAnd(T* p, std::type_identity_t<T> v) {
  return cuda_shim_atomic(p, [=](T x) { return static_cast<T>(x & v); });
}
template <class T> T atomicExch(T* p, std::type_identity_t<T> v) { return cuda_shim_atomic(p, [=](T) { return v; }); }
template <class T> T atomicCAS(T* p, std::type_identity_t<T> expected, std::type_identity_t<T> v) {
  return cuda_shim_atomic(p, [=](T x) { return x == expected ? v : x; });
}

// --- functions of device code ---
template <class T> T __ldg(const T* p) { return *p; }
template <class T> T __ldcs(const T* p) { return *p; }
template <class T> T __ldca(const T* p) { return *p; }
template <class T> T __ldcg(const T* p) { return *p; }
template <class T> void __stwb(T* p, T v) { *p = v; }
template <class T> void __stcg(T* p, T v) { *p = v; }
template <class T> void __stcs(T* p, T v) { *p = v; }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float __int_as_float(int x) { float f; std::memcpy(&f, &x, 4); return f; }
inline int __float_as_int(float x) { int i; std::memcpy(&i, &x, 4); return i; }
inline unsigned __float_as_uint(float x) { unsigned i; std::memcpy(&i, &x, 4); return i; }
inline float __uint_as_float(unsigned x) { float f; std::memcpy(&f, &x, 4); return f; }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<std::uint64_t>(a) * b >> 32);
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
[[noreturn]] inline void __trap() { __builtin_trap(); }

// --- the runtime ---
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorPeerAccessAlreadyEnabled = 704,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchOutOfResources = 701,
  cudaErrorLaunchTimeout = 702,
  cudaErrorAssert = 710,
  cudaErrorHardwareStackError = 714,
  cudaErrorIllegalInstruction = 715,
  cudaErrorMisalignedAddress = 716,
  cudaErrorInvalidAddressSpace = 717,
  cudaErrorInvalidPc = 718,
  cudaErrorLaunchFailure = 719,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorUnknown = 999,
};
enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
enum cudaStreamCaptureStatus {
  cudaStreamCaptureStatusNone,
  cudaStreamCaptureStatusActive,
  cudaStreamCaptureStatusInvalidated
};
enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal,
  cudaStreamCaptureModeThreadLocal,
  cudaStreamCaptureModeRelaxed
};
enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
};
enum cudaDriverEntryPointQueryResult {
  cudaDriverEntryPointSuccess,
  cudaDriverEntryPointSymbolNotFound,
  cudaDriverEntryPointVersionNotSufficent
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
inline constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2, cudaHostAllocDefault = 0;
inline constexpr unsigned long long cudaEnableDefault = 0;
struct cuda_shim_stream;
struct cuda_shim_event;
struct cuda_shim_graph;
using cudaStream_t = cuda_shim_stream*;
using cudaEvent_t = cuda_shim_event*;
using cudaGraph_t = cuda_shim_graph*;
using cudaGraphExec_t = cuda_shim_graph*;
enum cudaLaunchAttributeID {
  cudaLaunchAttributeClusterDimension = 4,
  cudaLaunchAttributeProgrammaticStreamSerialization = 6
};
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  struct {
    struct { unsigned x, y, z; } clusterDim;
    int programmaticStreamSerializationAllowed;
  } val;
};
struct cudaFuncAttributes { int ptxVersion; };  // 90: compiled for sm_90
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};
struct cudaDeviceProp {
  char name[256];
  std::size_t totalGlobalMem;
  int major, minor, multiProcessorCount;
  struct {
    char bytes[16];
  } uuid;
};

const char* cudaGetErrorName(cudaError_t);
const char* cudaGetErrorString(cudaError_t);
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
cudaError_t cudaGetDeviceCount(int*);
cudaError_t cudaSetDevice(int);
cudaError_t cudaGetDevice(int*);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp*, int);
cudaError_t cudaDeviceGetAttribute(int*, cudaDeviceAttr, int);
cudaError_t cudaDriverGetVersion(int*);
cudaError_t cudaRuntimeGetVersion(int*);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaMalloc(void**, std::size_t);
cudaError_t cudaFree(void*);
cudaError_t cudaMallocHost(void**, std::size_t);
cudaError_t cudaFreeHost(void*);
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);
cudaError_t cudaMemcpyAsync(void*, const void*, std::size_t, cudaMemcpyKind, cudaStream_t);
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, std::size_t, cudaStream_t);
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer);
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags);
cudaError_t cudaMemsetAsync(void*, int, std::size_t, cudaStream_t);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t*, unsigned);
cudaError_t cudaStreamDestroy(cudaStream_t);
cudaError_t cudaStreamSynchronize(cudaStream_t);
cudaError_t cudaStreamQuery(cudaStream_t);
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned = 0);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t*, unsigned);
cudaError_t cudaEventDestroy(cudaEvent_t);
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t);
cudaError_t cudaEventSynchronize(cudaEvent_t);
cudaError_t cudaEventQuery(cudaEvent_t);
cudaError_t cudaEventElapsedTime(float*, cudaEvent_t, cudaEvent_t);
cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void** arguments, std::size_t shared, cudaStream_t);
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t*, const void*, void** arguments);
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus*);
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode);
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t*);
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, unsigned long long = 0);
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t);
cudaError_t cudaGraphDestroy(cudaGraph_t);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t);
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, const void* kernel);
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int bytes);
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version,
                                             unsigned long long flags, cudaDriverEntryPointQueryResult* found);
