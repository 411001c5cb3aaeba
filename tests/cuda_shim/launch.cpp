// What a GPU of compute capability 9.0 refuses to launch.
#include <utility>

#include "tests/cuda_shim/ptx.h"
#include "tests/cuda_shim/runtime_parts.h"

namespace cuda_shim {
namespace {

constexpr std::size_t usual_shared = 48 * 1024, most_registers = 65536;
std::uint64_t launch_count = 0;
int ptx_version = 90;
std::map<std::pair<int, const void*>, std::size_t> allowed_shared;  // cudaFuncSetAttribute, per device

cudaError_t refuse(cudaError_t e, const Kernel& kernel, const std::string& why) {
  explanations[e] = "cuda_shim: " + kernel.name + ": " + why;
  return result(e);
}
cudaError_t refuse_shared(const Kernel& kernel) {
  const std::string most = std::to_string(most_shared / 1024);
  return refuse(cudaErrorInvalidValue, kernel, "static and dynamic shared memory exceed " + most + " KiB");
}

// Parameters that are pointers, and words of structs that look like one. The bytes between a struct's fields may hold
// anything, also a part of an old pointer beside a small number: words whose lowest byte or lower half is one are let
// through. Not under AddressSanitizer, where device memory is ordinary memory.
bool points_out_of_reach(const Argument& a) {
  constexpr std::size_t longest = 1024;  // what is longer is a list, filled in part
  if (!guarded || a.bytes > longest) return false;
  for (std::size_t i = 0; i + sizeof(char*) <= a.bytes; i += sizeof(char*)) {
    const char* p = nullptr;
    std::memcpy(&p, static_cast<const char*>(a.at) + i, sizeof p);
    const auto word = reinterpret_cast<std::uintptr_t>(p);
    const bool looks_like_one = a.is_pointer || (word % 256 >= 16 && static_cast<std::uint32_t>(word) >> 24 != 0);
    if (looks_like_one && is_out_of_reach(p)) return true;
  }
  return false;
}

}  // namespace

cudaError_t launch(cudaStream_t stream, const void* function, const Argument* arguments, std::function<void()> thread,
                   const Shape& shape) {
  return launch(stream, function, arguments, std::move(thread), shape, {});
}
cudaError_t launch(cudaStream_t stream, const void* function, const Argument* arguments, std::function<void()> thread,
                   const Shape& shape, ptx::Thread from_ptx) {
  const auto& [grid, block, shared, cluster, waits] = shape;
  note_call("cudaLaunchKernel");
  const std::lock_guard lock(mutex);
  const Kernel& kernel = kernel_at(function);
  if (stream_of(stream).device != device)
    return refuse(cudaErrorInvalidResourceHandle, kernel, "the stream is not of the current device");
  const std::uint64_t count = std::uint64_t{block.x} * block.y * block.z;
  const bool fits = count >= 1 && count <= 1024 && block.x <= 1024 && block.y <= 1024 && block.z <= 64 && grid.x >= 1 &&
                    grid.y >= 1 && grid.z >= 1 && grid.x <= 0x7fffffffu && grid.y <= 65535 && grid.z <= 65535;
  if (!fits) return refuse(cudaErrorInvalidConfiguration, kernel, "the grid or the block is too large, or empty");
  if (cluster < 1 || cluster > most_cluster || grid.x % cluster != 0) {
    return refuse(cudaErrorInvalidConfiguration, kernel,
                  std::to_string(grid.x) + " blocks in clusters of " + std::to_string(cluster));
  }
  // A GPU would take these. Here static shared memory is one variable, and warps are numbered through a cluster.
  if (cluster > 1 && (kernel.shared_bytes > 0 || count % 128 != 0))
    return refuse(cudaErrorInvalidConfiguration, kernel,
                  "the shim takes clusters of warpgroups, without static shared memory");
  const auto allowed = allowed_shared.find({device, function});
  if (shared > usual_shared && (allowed == allowed_shared.end() || shared > allowed->second)) {
    return refuse(cudaErrorInvalidValue, kernel,
                  std::to_string(shared) + " bytes of shared memory were not asked for by cudaFuncSetAttribute");
  }
  if (shared + kernel.shared_bytes > most_shared) return refuse_shared(kernel);
  if ((count + 31) / 32 * 32 * ((kernel.registers + 7) / 8 * 8) > most_registers) {
    return refuse(cudaErrorLaunchOutOfResources, kernel,
                  std::to_string(count) + " threads of " + std::to_string(kernel.registers) + " registers");
  }
  for (const Argument* a = arguments; a->at; ++a) {
    if (!points_out_of_reach(*a)) continue;
    explanations[sticky = cudaErrorIllegalAddress] = "cuda_shim: " + kernel.name + ": parameter " +
                                                     std::to_string(a - arguments) +
                                                     " points to memory of the host or of another GPU";
    return result(sticky);
  }
  if (planned != cudaSuccess) {
    sticky = std::exchange(planned, cudaSuccess);
    return result(sticky);
  }
  if (!from_ptx.run) from_ptx = ptx::thread_of(kernel, arguments);
  if (from_ptx.most_threads != 0 && count > from_ptx.most_threads) {
    return refuse(
        cudaErrorInvalidValue, kernel,
        std::to_string(count) + " threads, where __launch_bounds__ allows " + std::to_string(from_ptx.most_threads));
  }
  ++launch_count;
  if (from_ptx.run) {
    return enqueue(stream, [&kernel, from = std::move(from_ptx), shape] { ptx::run_grid(kernel, from, shape); });
  }
  return enqueue(stream, [&kernel, thread = std::move(thread), shape] { run_grid(kernel, thread, shape); });
}

void set_shared_limit(std::size_t bytes) { most_shared = bytes; }
void set_ptx_version(int version) { ptx_version = version; }
std::uint64_t launches() { return launch_count; }

}  // namespace cuda_shim

using namespace cuda_shim;

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute, int bytes) {
  note_call(__func__);
  if (null_device) return cudaSuccess;
  const std::lock_guard lock(mutex);
  const Kernel& kernel = kernel_at(function);
  if (bytes < 0 || static_cast<std::size_t>(bytes) + kernel.shared_bytes > most_shared) {
    return refuse_shared(kernel);
  }
  allowed_shared[{device, function}] = static_cast<std::size_t>(bytes);
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* a, const void*) {
  note_call(__func__);
  a->ptxVersion = ptx_version;
  return cudaSuccess;
}
// Both of a null device alone: cuda/launch.cuh gives others a function that calls the kernel.
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void*, void**) {
  note_call(__func__);
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const cudaLaunchAttribute& a = config->attrs[i];
    if (a.id == cudaLaunchAttributeProgrammaticStreamSerialization && a.val.programmaticStreamSerializationAllowed != 0)
      note_call("a launch that may come early");
  }
  return null_device ? cudaSuccess : result(cudaErrorInvalidValue);
}
cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, std::size_t, cudaStream_t) {
  note_call(__func__);
  return null_device ? cudaSuccess : result(cudaErrorInvalidValue);
}
