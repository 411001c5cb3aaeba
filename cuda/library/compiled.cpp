// Code compiled by NVRTC, loaded and launched by the driver. The driver's functions are looked up at run time, so that
// the library does not link to libcuda.
#include "cuda/compiled.h"

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <map>
#include <mutex>

#include "core/error.h"
#include "cuda/check.h"
#include "cuda/library/nvrtc.h"
#include "cuda/runtime.h"

namespace mantissa::cuda_backend {

class CompiledKernel {
 public:
  CUfunction function = nullptr;
};

#if !defined(MANTISSA_HAS_NVRTC)
bool can_compile() { return false; }
const CompiledKernel& compile(const std::string&, const char*, Device) {
  fail("internal error: a build without NVRTC compiles nothing");
}
void launch_compiled(const CompiledKernel&, unsigned, unsigned, const void*, std::size_t) {}
#else

namespace {

template <class F> F* driver_function(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  const cudaError_t status = cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found);
#else
  const cudaError_t status = cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &found);
#endif
  check_status(status, "fetching a function of the driver");
  check(found == cudaDriverEntryPointSuccess, "the driver has no ", name, "; it is older than CUDA 12");
  return reinterpret_cast<F*>(function);
}
void check_driver(CUresult status, const char* what) {
  if (status == CUDA_SUCCESS) return;
  static auto* const name_of_error = driver_function<CUresult(CUresult, const char**)>("cuGetErrorName");
  const char* name = nullptr;
  name_of_error(status, &name);
  fail("the driver refused ", what, ": ", name ? name : "unknown error");
}

int architecture_of(Device device) {
  int major = 0, minor = 0;
  check_status(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device.index),
               "asking for the compute capability");
  check_status(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device.index),
               "asking for the compute capability");
  return 10 * major + minor;
}

}  // namespace

bool can_compile() {
  static const bool works = [] {
    try {
      return !compile_text("__global__ void nothing() {}", 80).empty();
    } catch (const Error& e) {
      std::fprintf(stderr, "mantissa: jit::fuse runs its operators one by one: %s\n", e.what());
      return false;
    }
  }();
  return works;
}

const CompiledKernel& compile(const std::string& text, const char* name, Device device) {
  static std::mutex mutex;
  static auto& modules =
      *new std::map<std::pair<std::string, int>, CUmodule>;  // never destroyed: used until the process ends
  static auto& kernels = *new std::map<std::pair<CUmodule, std::string>, CompiledKernel>;
  static auto* const load = driver_function<CUresult(CUmodule*, const void*)>("cuModuleLoadData");
  static auto* const get = driver_function<CUresult(CUfunction*, CUmodule, const char*)>("cuModuleGetFunction");
  const std::lock_guard lock(mutex);
  const std::pair key(text, static_cast<int>(device.index));
  auto module = modules.find(key);
  if (module == modules.end()) {
    check(!is_capturing(),
          "jit::fuse meets new dtypes while a graph is recorded and would have to compile for them; call the function "
          "with them before");
    const std::vector<char> code = compile_text(text, architecture_of(device));
    CUmodule loaded;
    check_driver(load(&loaded, code.data()), "a fused function");
    module = modules.emplace(key, loaded).first;
  }
  auto kernel = kernels.find({module->second, name});
  if (kernel == kernels.end()) {
    const CaptureRelaxed relaxed;  // it may load code
    CompiledKernel found;
    check_driver(get(&found.function, module->second, name), "a fused function");
    kernel = kernels.emplace(std::pair{module->second, name}, found).first;
  }
  return kernel->second;
}

void launch_compiled(const CompiledKernel& kernel, unsigned blocks, unsigned threads, const void* parameter,
                     std::size_t) {
  static auto* const launch = driver_function<CUresult(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                                                       unsigned, unsigned, CUstream, void**, void**)>("cuLaunchKernel");
  void* parameters[] = {const_cast<void*>(parameter)};  // the driver knows the parameter size of the kernel
  check_driver(launch(kernel.function, blocks, 1, 1, threads, 1, 1, 0, stream(), parameters, nullptr),
               "to launch a fused function");
  after_launch("fused", cudaSuccess);  // waits where every launch is configured to wait
}
#endif

}  // namespace mantissa::cuda_backend
