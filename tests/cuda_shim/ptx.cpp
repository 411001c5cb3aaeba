#include "tests/cuda_shim/ptx.h"

#include <cuda_runtime.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cfenv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>

#include "tests/cuda_shim/fibers.h"
#include "tests/cuda_shim/ptx_counts.h"
#include "tests/cuda_shim/ptx_parts.h"
#include "tests/cuda_shim/runtime_parts.h"

namespace cuda_shim::ptx {
namespace {

// nvcc calls an unnamed namespace "_GLOBAL__N__<hash>_<length>_<file>_<hash>_<number>", after the length of that; g++
// "_GLOBAL__N_1". 46_GLOBAL__N__4344d026_8_lines_cu_b29810c0_1332513extreme_lines: 46 characters, the file lines.cu,
// and then the next name, 13extreme_lines. Gives g++'s name, and the file.
struct Name {
  std::string mangled, file;  // no file: the kernel is in a named namespace
};
Name common_name(std::string_view name) {
  constexpr std::string_view hidden = "_GLOBAL__N__";
  Name n;
  for (std::size_t at; (at = name.find(hidden)) != name.npos;) {
    std::size_t digits = at;
    while (digits > 0 && std::isdigit(static_cast<unsigned char>(name[digits - 1]))) --digits;
    // The digits before may belong to another name: the right ones end the name before a digit, of the next length.
    std::size_t length = 0;
    for (std::size_t from = at - std::min<std::size_t>(3, at - digits); from < at && length == 0; ++from) {
      const auto count = static_cast<std::size_t>(std::atoi(std::string(name.substr(from, at - from)).c_str()));
      if (name[from] != '0' && count >= 30 && at + count < name.size() &&
          std::isdigit(static_cast<unsigned char>(name[at + count])))
        length = count, digits = from;
    }
    if (length == 0) fail("cannot read the name " + std::string(name));
    const std::string_view file = name.substr(at + hidden.size() + 9);  // after the hash: 10_softmax_cu_...
    const std::size_t count = static_cast<std::size_t>(std::atoi(std::string(file.substr(0, 3)).c_str()));
    n.file = file.substr(file.find('_') + 1, count);
    if (const std::size_t dot = n.file.rfind("_cu"); dot != n.file.npos) n.file[dot] = '.';
    n.mangled += std::string(name.substr(0, digits)) + "12_GLOBAL__N_1";
    name.remove_prefix(at + length);
  }
  n.mangled += name;
  return n;
}

struct Place {
  Module* module = nullptr;
  std::string_view name;  // nvcc's
};
struct Library {
  std::vector<std::unique_ptr<Module>> modules;
  std::map<std::pair<std::string, std::string>, Place> kernels;  // by name and file
  std::set<std::string_view> executed;                           // nvcc's names
  std::set<std::string> missing;

  explicit Library(const char* folder) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.path().extension() != ".ptx") continue;
      std::ifstream in(entry.path(), std::ios::binary);
      modules.push_back(std::make_unique<Module>(std::string(std::istreambuf_iterator<char>(in), {})));
      for (const auto& [name, at] : modules.back()->kernels()) {
        Name common = common_name(name);
        kernels[{std::move(common.mangled), std::move(common.file)}] = {modules.back().get(), name};
      }
    }
    if (kernels.empty()) fail("no kernels in " + std::string(folder));
  }
  // $MANTISSA_SHIM_PTX_EXECUTED names a file to which the names of all kernels that were executed are added.
  void report() const {
    std::fprintf(stderr, "PTX: %zu of %zu kernels executed", executed.size(), kernels.size());
    for (const std::string& name : missing) std::fprintf(stderr, "; not in the folder: %s", name.c_str());
    std::fprintf(stderr, "\n");
    if (const char* file = std::getenv("MANTISSA_SHIM_PTX_EXECUTED")) {
      std::string names;
      for (const std::string_view name : executed) names += std::string(name) + "\n";
      const int to = open(file, O_WRONLY | O_APPEND | O_CREAT, 0666);  // written at once: other tests add to it, too
      if (to < 0 || write(to, names.data(), names.size()) < 0) std::fprintf(stderr, "PTX: cannot write %s\n", file);
      if (to >= 0) close(to);
    }
  }
};
Library* library() {
  // Never destroyed: late work may run at exit.
  static Library* const all = [] {
    const char* const folder = std::getenv("MANTISSA_SHIM_PTX");
    return folder ? new Library(folder) : nullptr;
  }();
  static const bool reports = all && std::atexit([] { library()->report(); }) == 0;
  (void)reports;
  return all;
}

// What a running function owns. A kernel's is not on its fiber, which is abandoned after an error, as it is.
struct Memory {
  std::vector<std::uint64_t> values, call, local;
  Frame frame;
};
void execute(const Function& f, char* parameters, Memory& memory) {
  std::vector<std::uint64_t>& values = memory.values;
  values.assign(f.values.begin(), f.values.end());
  memory.call.assign(f.call_bytes / 8 + 1, 0);
  memory.local.assign(f.local_bytes / 8 + 2, ~std::uint64_t{0});
  char* own = reinterpret_cast<char*>(memory.local.data());
  own += (16 - reinterpret_cast<std::uintptr_t>(own) % 16) % 16;
  Frame& frame = memory.frame = Frame();
  frame.values = values.data();
  frame.parameters = parameters;
  frame.call = reinterpret_cast<char*>(memory.call.data());
  for (const Relocation& r : f.relocations) {
    std::uint64_t base = 0;
    switch (r.base) {
      case Base::shared: base = shared_address(dynamic_shared()); break;
      case Base::dynamic_shared: base = shared_address(dynamic_shared()) + (f.shared_bytes + 15) / 16 * 16; break;
      case Base::parameters: base = reinterpret_cast<std::uintptr_t>(parameters); break;
      case Base::local: base = reinterpret_cast<std::uintptr_t>(own); break;
    }
    values[r.slot] = base + static_cast<std::uint64_t>(r.offset);
  }
  std::size_t executed = 0;
  while (frame.next < f.code.size()) {
    const Instruction& i = f.code[frame.next++];
    ++executed;
    if (i.condition != no_slot && (get<std::uint8_t>(frame, i.condition) != 0) == i.negated) continue;
    i.step(frame, i);
  }
  if (counting) count_instructions(executed);
}

// An argument may be longer than its parameter only where `longer`: the driver, too, copies what the kernel takes.
Thread prepare(const Function& f, const Argument* arguments, bool longer) {
  // As aligned as a tensor map, the most that a parameter asks for.
  struct alignas(128) Line {
    char bytes[128];
  };
  const auto lines = std::make_shared<std::vector<Line>>(f.parameter_bytes / sizeof(Line) + 1);
  char* const parameters = lines->front().bytes;
  for (const Parameter& p : f.parameters) {
    if (!arguments->at || (longer ? arguments->bytes < p.bytes : arguments->bytes != p.bytes)) {
      fail(std::string(f.name) + ": a parameter has " + std::to_string(p.bytes) + " bytes, and on the host " +
           std::to_string(arguments->bytes));
    }
    std::memcpy(parameters + p.offset, arguments++->at, p.bytes);
  }
  if (arguments->at) fail(std::string(f.name) + ": more arguments than parameters");
  return {[&f, lines, parameters] {
            // One for each thread of those that run together, which keeps its memory.
            static auto& memories = *new std::vector<Memory>(1024 * most_cluster);
            execute(f, parameters, memories[thread_number()]);
          },
          f.name, f.most_threads, (f.shared_bytes + 15) / 16 * 16, f.waits && f.waits_first};
}

}  // namespace

void call(const Function& f, char* parameters) {
  Memory memory;
  execute(f, parameters, memory);
}

void run_grid(const Kernel& kernel, const Thread& thread, Shape shape) {
  const auto& [blocks, threads, bytes, together, waits] = shape;
  if (counting) {
    const std::size_t of_block = std::size_t{threads.x} * threads.y * threads.z;
    count_launch(thread.name, std::size_t{blocks.x} * blocks.y * blocks.z * of_block);
  }
  if (waits && !thread.waits_first)
    fail(std::string(thread.name) + ": it accesses global memory before griddepcontrol.wait, or never waits");
  shape.shared += thread.shared;
  std::fenv_t before;
  std::fegetenv(&before);
  std::fesetenv(FE_DFL_ENV);
  try {
    cuda_shim::run_grid(kernel, thread.run, shape);
  } catch (...) {
    std::fesetenv(&before);
    throw;
  }
  std::fesetenv(&before);
}

bool is_wanted() { return library() != nullptr; }

Thread thread_of(const Kernel& kernel, const Argument* arguments) {
  Library* const all = library();
  if (!all || kernel.mangled.empty()) return {};
  auto at = all->kernels.find({kernel.mangled, {}});
  if (at == all->kernels.end()) at = all->kernels.find({kernel.mangled, kernel.file});
  if (at == all->kernels.end()) {
    all->missing.insert(kernel.name);
    return {};
  }
  all->executed.insert(at->second.name);
  return prepare(at->second.module->function(at->second.name), arguments, false);
}

Thread thread_of(const std::string& text, std::string_view kernel, const Argument* arguments) {
  const std::lock_guard lock(mutex);
  static auto& modules = *new std::map<std::string, Module>;  // never destroyed: late work may run at exit
  return prepare(modules.try_emplace(text, text).first->second.function(kernel), arguments, true);
}

}  // namespace cuda_shim::ptx
