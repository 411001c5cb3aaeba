// In place of NVRTC and the driver: to compile a text is to keep it, and to load it is to have the C++ compiler make a
// library of it, which finds the shim's machine in the program (linked with ENABLE_EXPORTS). Where kernels are executed
// from PTX (tests/cuda_shim/ptx.h), NVRTC makes that of the same text.
#include "tests/cuda_shim/driver.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "core/error.h"
#include "cuda/library/nvrtc.h"
#include "tests/cuda_shim/ptx.h"
#include "tests/cuda_shim/shim.h"
#include "tests/cuda_shim/tensor_map.h"

struct CUmod_st {
  void* library;
  std::string text;
};
struct CUfunc_st {
  const void* kernel;
  void (*call)(const void* parameter);
  std::size_t parameter_bytes;
  std::string name, ptx;  // PTX is empty where the library is called
};

std::vector<char> mantissa::cuda_backend::compile_text(const std::string& text, int) {
  return {text.c_str(), text.c_str() + text.size() + 1};
}

namespace cuda_shim {
namespace {

// Calls a kernel with the parameter that lies at an address.
constexpr const char* entries = R"(
template <class Parameter> void call_kernel(void (*kernel)(Parameter), const void* at) {
  kernel(*static_cast<const Parameter*>(at));
}
template <class Parameter> constexpr unsigned long size_of_parameter(void (*)(Parameter)) { return sizeof(Parameter); }
extern "C" void call_fused_packs(const void* at) { call_kernel(&::fused_packs, at); }
extern "C" void call_fused_elements(const void* at) { call_kernel(&::fused_elements, at); }
extern "C" const unsigned long bytes_fused_packs = size_of_parameter(&::fused_packs);
extern "C" const unsigned long bytes_fused_elements = size_of_parameter(&::fused_elements);
)";

void* make_library(const std::string& text) {
  namespace fs = std::filesystem;
  std::string folder = (fs::temp_directory_path() / "mantissa_fused_XXXXXX").string();
  mantissa::check(mkdtemp(folder.data()) != nullptr, "internal error: no folder for a fused function");
  std::ofstream(folder + "/fused.cpp") << text << entries;
  const std::string command = mantissa::concat(
      MANTISSA_CXX " -std=c++20 -O1 -fPIC -shared -w -DMANTISSA_CUDA_SHIM -I'" MANTISSA_SOURCE_DIR
                   "/tests/cuda_shim/include' -I'" MANTISSA_SOURCE_DIR "' '",
      folder, "/fused.cpp' -o '", folder, "/fused.so' >'", folder, "/log' 2>&1");
  const int status = std::system(command.c_str());
  std::ifstream log(folder + "/log");
  const std::string said((std::istreambuf_iterator<char>(log)), {});
  void* const library = status == 0 ? dlopen((folder + "/fused.so").c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  const std::string why = library ? "" : status == 0 ? dlerror() : said;
  fs::remove_all(folder);
  mantissa::check(library != nullptr, "internal error: a fused function does not compile: ", why, "\n", text);
  return library;
}

CUresult name_of_error(CUresult, const char** name) {
  *name = "CUDA_ERROR_...";
  return CUDA_SUCCESS;
}
CUresult load_module(CUmodule* module, const void* image) {
  const std::string text = static_cast<const char*>(image);
  *module = new CUmod_st{make_library(text), text};
  return CUDA_SUCCESS;
}
CUresult get_function(CUfunction* function, CUmodule module, const char* name) {
  const auto find = [&](const std::string& symbol) { return dlsym(module->library, symbol.c_str()); };
  const auto* const bytes = static_cast<const unsigned long*>(find(std::string("bytes_") + name));
  if (!bytes) return CUDA_ERROR_NOT_FOUND;
  *function = new CUfunc_st{find(name), reinterpret_cast<void (*)(const void*)>(find(std::string("call_") + name)),
                            *bytes, name, ""};
#if defined(MANTISSA_SHIM_HAS_NVRTC)
  if (ptx::is_wanted()) (*function)->ptx = mantissa::cuda_backend::compile_to_ptx(module->text, 90);
#endif
  return CUDA_SUCCESS;
}
CUresult launch_kernel(CUfunction f, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                       unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void** parameters,
                       void**) {
  const auto* const from = static_cast<const char*>(parameters[0]);
  const Argument arguments[] = {{from, f->parameter_bytes}, {}};
  std::function<void()> thread = [call = f->call, copy = std::vector<char>(from, from + f->parameter_bytes)] {
    call(copy.data());
  };
  ptx::Thread from_ptx;
  if (!f->ptx.empty()) from_ptx = ptx::thread_of(f->ptx, f->name, arguments);
  const Shape shape{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared};
  return launch(stream, f->kernel, &arguments[1], std::move(thread), shape, std::move(from_ptx)) == cudaSuccess
             ? CUDA_SUCCESS
             : CUDA_ERROR_LAUNCH_FAILED;
}

}  // namespace

void* driver_function(const char* name) {
  const auto is = [&](const char* other) { return std::strcmp(name, other) == 0; };
  if (is("cuTensorMapEncodeTiled")) return reinterpret_cast<void*>(&encode_tiled);
  if (is("cuGetErrorName")) return reinterpret_cast<void*>(&name_of_error);
  if (is("cuModuleLoadData")) return reinterpret_cast<void*>(&load_module);
  if (is("cuModuleGetFunction")) return reinterpret_cast<void*>(&get_function);
  if (is("cuLaunchKernel")) return reinterpret_cast<void*>(&launch_kernel);
  return nullptr;
}

}  // namespace cuda_shim
