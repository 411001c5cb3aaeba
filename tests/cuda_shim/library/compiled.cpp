// In place of NVRTC: the C++ compiler makes a library of the text, which finds the shim's machine in the program
// (linked with ENABLE_EXPORTS). Where kernels are executed from PTX (tests/cuda_shim/ptx.h), NVRTC's.
#include "cuda/compiled.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <vector>

#include "core/error.h"
#include "cuda/check.h"
#include "cuda/library/nvrtc.h"
#include "cuda/runtime.h"
#include "tests/cuda_shim/ptx.h"
#include "tests/cuda_shim/shim.h"

namespace mantissa::cuda_backend {
namespace {

// Calls a kernel with the parameter that lies at an address.
constexpr const char* entries = R"(
template <class Parameter> void call_kernel(void (*kernel)(Parameter), const void* at) {
  kernel(*static_cast<const Parameter*>(at));
}
extern "C" void call_fused_packs(const void* at) { call_kernel(&::fused_packs, at); }
extern "C" void call_fused_elements(const void* at) { call_kernel(&::fused_elements, at); }
)";

void* make_library(const std::string& text) {
  namespace fs = std::filesystem;
  std::string folder = (fs::temp_directory_path() / "mantissa_fused_XXXXXX").string();
  check(mkdtemp(folder.data()) != nullptr, "internal error: no folder for a fused function");
  std::ofstream(folder + "/fused.cpp") << text << entries;
  const std::string command =
      concat(MANTISSA_CXX " -std=c++20 -O1 -fPIC -shared -w -DMANTISSA_CUDA_SHIM -I'" MANTISSA_SOURCE_DIR
                          "/tests/cuda_shim/include' -I'" MANTISSA_SOURCE_DIR "' '",
             folder, "/fused.cpp' -o '", folder, "/fused.so' >'", folder, "/log' 2>&1");
  const int status = std::system(command.c_str());
  std::ifstream log(folder + "/log");
  const std::string said((std::istreambuf_iterator<char>(log)), {});
  void* const library = status == 0 ? dlopen((folder + "/fused.so").c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  const std::string why = library ? "" : status == 0 ? dlerror() : said;
  fs::remove_all(folder);
  check(library != nullptr, "internal error: a fused function does not compile: ", why, "\n", text);
  return library;
}

}  // namespace

class CompiledKernel {
 public:
  const void* function = nullptr;
  void (*call)(const void*) = nullptr;
  std::string name, ptx;  // PTX is empty where the library is called
};

bool can_compile() { return true; }

const CompiledKernel& compile(const std::string& text, const char* name, Device) {
  static std::mutex mutex;
  static auto& libraries = *new std::map<std::string, void*>;
  static auto& kernels = *new std::map<std::pair<void*, std::string>, CompiledKernel>;
  const std::lock_guard lock(mutex);
  auto library = libraries.find(text);
  if (library == libraries.end()) library = libraries.emplace(text, make_library(text)).first;
  CompiledKernel& kernel = kernels[{library->second, name}];
#if defined(MANTISSA_HAS_NVRTC)
  if (cuda_shim::ptx::is_wanted() && kernel.ptx.empty()) kernel.ptx = compile_to_ptx(text, 90);
#endif
  kernel.name = name;
  kernel.function = dlsym(library->second, name);
  kernel.call = reinterpret_cast<void (*)(const void*)>(dlsym(library->second, concat("call_", name).c_str()));
  check(kernel.function && kernel.call, "internal error: no kernel ", name);
  return kernel;
}

void launch_compiled(const CompiledKernel& kernel, unsigned blocks, unsigned threads, const void* parameter,
                     std::size_t bytes) {
  const auto* const from = static_cast<const char*>(parameter);
  const cuda_shim::Argument arguments[] = {{parameter, bytes}, {}};
  std::function<void()> thread = [call = kernel.call, copy = std::vector<char>(from, from + bytes)] {
    call(copy.data());
  };
  cuda_shim::ptx::Thread from_ptx;
  if (!kernel.ptx.empty()) from_ptx = cuda_shim::ptx::thread_of(kernel.ptx, kernel.name, arguments);
  const cudaError_t status = cuda_shim::launch(stream(), kernel.function, &arguments[1], std::move(thread),
                                               {blocks, threads}, std::move(from_ptx));
  after_launch("fused", status);
}

}  // namespace mantissa::cuda_backend
