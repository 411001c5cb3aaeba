// The runtime's calls on the CPU: errors, and what a program asks of a device. Memory, streams and launches have files
// of their own.
#include <utility>

#include "tests/cuda_shim/driver.h"
#include "tests/cuda_shim/runtime_parts.h"

namespace cuda_shim {
namespace {

int device_count = 1;
constexpr int toolkit_version = 13000;
int driver_version = toolkit_version;
thread_local cudaError_t last_error = cudaSuccess;
thread_local CallCounter* counter = nullptr;
std::map<std::string, int> planned_statuses;  // of fail_next_call

}  // namespace

cudaError_t result(cudaError_t e) {
  if (e != cudaSuccess) last_error = e;  // as the real one, also cudaErrorNotReady
  return e;
}

CallCounter::CallCounter() : before_(std::exchange(counter, this)) {}
CallCounter::~CallCounter() { counter = before_; }
void note_call(const char* name) {
  if (counter) [[unlikely]] ++counter->calls[name];
}

void fail_next_call(const char* name, int status) { planned_statuses[name] = status; }
int planned_status(const char* call) {
  const auto at = planned_statuses.find(call);
  if (at == planned_statuses.end()) return 0;
  const int status = at->second;
  planned_statuses.erase(at);
  return status;
}

bool null_device = false;
void set_null_device(bool on) {
  const std::lock_guard lock(mutex);
  drain();
  null_device = on;
}

void set_device_count(int count) { device_count = count; }
void set_driver_version(int version) { driver_version = version; }
void fail_next_launch(cudaError_t e) { planned = e; }
void forget_errors() {
  sticky = planned = last_error = cudaSuccess;
  explanations.clear();
  for (cuda_shim_stream* s : all_streams()) s->tasks.clear();
}

}  // namespace cuda_shim

using namespace cuda_shim;

const char* cudaGetErrorName(cudaError_t e) {
  switch (e) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorLaunchOutOfResources: return "cudaErrorLaunchOutOfResources";
    case cudaErrorMisalignedAddress: return "cudaErrorMisalignedAddress";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    default: return "cudaErrorUnknown";
  }
}
const char* cudaGetErrorString(cudaError_t e) {
  const std::lock_guard lock(mutex);
  const auto text = explanations.find(e);
  return text != explanations.end() ? text->second.c_str() : cudaGetErrorName(e);
}
cudaError_t cudaPeekAtLastError() { return sticky != cudaSuccess ? sticky : last_error; }
cudaError_t cudaGetLastError() {
  note_call(__func__);
  const cudaError_t e = cudaPeekAtLastError();
  last_error = cudaSuccess;
  return e;
}

cudaError_t cudaGetDeviceCount(int* n) {
  note_call(__func__);
  if (driver_version < toolkit_version) return result(cudaErrorInsufficientDriver);
  *n = device_count;
  return result(device_count > 0 ? cudaSuccess : cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int d) {
  note_call(__func__);
  if (d < 0 || d >= device_count) return result(cudaErrorInvalidDevice);
  device = d;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* d) {
  note_call(__func__);
  *d = device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int index) {
  note_call(__func__);
  *p = {"CPU shim", memory_limit, 9, 0, 2, {{static_cast<char>(index)}}};
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr what, int) {
  note_call(__func__);
  switch (what) {
    case cudaDevAttrMultiProcessorCount: *value = 2; break;
    case cudaDevAttrComputeCapabilityMajor: *value = 9; break;
    case cudaDevAttrComputeCapabilityMinor: *value = 0; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = static_cast<int>(most_shared); break;
  }
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version, unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  note_call(__func__);
  *function = version < 12000 ? nullptr : driver_function(name);
  *found = version < 12000 ? cudaDriverEntryPointVersionNotSufficent  // NVIDIA's spelling
           : *function     ? cudaDriverEntryPointSuccess
                           : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* v) { return *v = driver_version, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* v) { return *v = toolkit_version, cudaSuccess; }
cudaError_t cudaDeviceSynchronize() {
  note_call(__func__);
  const std::lock_guard lock(mutex);
  if (const cudaError_t e = before_waiting(Wait::for_device); e != cudaSuccess) return result(e);
  drain();
  return result(sticky);
}
