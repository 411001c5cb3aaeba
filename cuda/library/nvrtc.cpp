#if defined(MANTISSA_HAS_NVRTC)
#include "cuda/library/nvrtc.h"

#include <nvrtc.h>

#include "core/error.h"
#include "device_headers.h"  // made by cmake/device_headers.cmake: their names and texts

namespace mantissa::cuda_backend {
namespace {

void check_status(nvrtcResult status, const char* what) {
  if (status != NVRTC_SUCCESS) fail("NVRTC refused ", what, ": ", nvrtcGetErrorString(status));
}

}  // namespace

std::vector<char> compile_text(const std::string& text, int architecture) {
  nvrtcProgram program;
  check_status(nvrtcCreateProgram(&program, text.c_str(), "fused.cu", std::size(device_header_names),
                                  device_header_texts, device_header_names),
               "a program");
  const std::string arch = concat("--gpu-architecture=sm_", architecture);
  const char* const options[] = {arch.c_str(), "--std=c++20", "--device-as-default-execution-space"};
  const nvrtcResult status = nvrtcCompileProgram(program, std::size(options), options);
  if (status != NVRTC_SUCCESS) {
    std::size_t bytes = 0;
    nvrtcGetProgramLogSize(program, &bytes);
    std::string log(bytes, '\0');
    if (bytes > 0) nvrtcGetProgramLog(program, log.data());
    nvrtcDestroyProgram(&program);
    fail("internal error: NVRTC does not compile a fused function: ", nvrtcGetErrorString(status), "\n", log.c_str(),
         "\n", text);
  }
  std::size_t bytes = 0;
  check_status(nvrtcGetCUBINSize(program, &bytes), "to give machine code");
  std::vector<char> code(bytes);
  check_status(nvrtcGetCUBIN(program, code.data()), "to give machine code");
  nvrtcDestroyProgram(&program);
  return code;
}

}  // namespace mantissa::cuda_backend
#endif
