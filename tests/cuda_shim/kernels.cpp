// What the shim knows of a kernel from its address: the symbol table of the program, or of the library that the shim is
// in, names it and the static variables in it, which are its shared memory; cuda/kernel_resources.txt has registers.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <sstream>
#include <string_view>

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include "tests/cuda_shim/shim.h"

namespace cuda_shim {
namespace {

struct Symbol {
  char* at = nullptr;
  std::size_t bytes = 0;
};
struct Symbols {
  std::string file;  // the program or library, whose bytes hold the names
  struct Function { std::string_view name, file; };
  std::map<char*, Function> functions;
  std::map<std::string_view, Symbol> locals;  // variables in functions, by mangled name: _ZZ<function>E<variable>
};

constexpr const char* program = "/proc/self/exe";

struct Place {  // where an address is
  std::string path;              // of the program or library
  char* base = nullptr;          // where that is loaded
  const char* symbol = nullptr;  // the exported name of the address, if it has one
};
Place place_of(const void* address) {
  Dl_info info;
  link_map* map = nullptr;
  if (dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 || map == nullptr) return {};
  return {*map->l_name != '\0' ? map->l_name : program, reinterpret_cast<char*>(map->l_addr), info.dli_sname};
}

Symbols read_symbols(const std::string& path, char* base) {
  Symbols s;
  std::ifstream in(path, std::ios::binary);
  s.file.assign(std::istreambuf_iterator<char>(in), {});
  if (s.file.size() < sizeof(Elf64_Ehdr)) throw std::runtime_error("cuda_shim: cannot read " + path);
  const auto* elf = reinterpret_cast<const Elf64_Ehdr*>(s.file.data());
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(s.file.data() + elf->e_shoff);
  for (int i = 0; i < elf->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const auto* symbols = reinterpret_cast<const Elf64_Sym*>(s.file.data() + sections[i].sh_offset);
    const char* names = s.file.data() + sections[sections[i].sh_link].sh_offset;
    std::string_view file;  // of the local symbols that follow
    for (std::size_t k = 0; k < sections[i].sh_size / sizeof(Elf64_Sym); ++k) {
      const std::string_view name = names + symbols[k].st_name;
      char* at = base + symbols[k].st_value;
      const int type = ELF64_ST_TYPE(symbols[k].st_info);
      const bool local = ELF64_ST_BIND(symbols[k].st_info) == STB_LOCAL;
      if (type == STT_FILE) file = name;
      if (type == STT_FUNC && symbols[k].st_value != 0)
        s.functions.emplace(at, Symbols::Function{name, local ? file : std::string_view()});
      if (type == STT_OBJECT && name.starts_with("_ZZ")) s.locals.emplace(name, Symbol{at, symbols[k].st_size});
    }
  }
  if (s.functions.empty())
    throw std::runtime_error("cuda_shim: " + path + " has no symbol table, which the shim needs");
  return s;
}

// "void mantissa::(anonymous namespace)::name<int>(int)" -> "name", as tests/cuda_resources_test.sh does.
struct Name {
  std::string text;
  bool is_template = false;
};
Name short_name(std::string_view mangled) {
  int status = 0;
  char* text = abi::__cxa_demangle(std::string(mangled).c_str(), nullptr, nullptr, &status);
  std::string name = status == 0 ? text : std::string(mangled);
  std::free(text);
  for (constexpr std::string_view hidden = "(anonymous namespace)::"; name.find(hidden) != name.npos;) {
    name.erase(name.find(hidden), hidden.size());
  }
  const std::size_t end = std::min(name.find_first_of("<("), name.size());
  const bool is_template = end < name.size() && name[end] == '<';
  name.erase(end);
  if (const std::size_t colons = name.rfind("::"); colons != name.npos) name.erase(0, colons + 2);
  if (const std::size_t space = name.rfind(' '); space != name.npos) name.erase(0, space + 1);
  return {name, is_template};
}

std::map<std::string, unsigned> read_registers() {
  std::map<std::string, unsigned> most;
  std::ifstream in(MANTISSA_SOURCE_DIR "/cuda/kernel_resources.txt");
  if (!in) throw std::runtime_error("cuda_shim: cannot read cuda/kernel_resources.txt");
  for (std::string line, file, name; std::getline(in, line);) {
    unsigned registers = 0;
    if (line.starts_with('#') || !(std::istringstream(line) >> file >> name >> registers)) continue;
    most[name] = std::max(most[name], registers);
  }
  return most;
}

}  // namespace

const Kernel& kernel_at(const void* function) {
  static std::mutex mutex;
  static auto& known = *new std::map<const void*, Kernel>;  // never destroyed: late work may run at exit
  const std::lock_guard lock(mutex);
  if (const auto at = known.find(function); at != known.end()) return at->second;
  static auto& symbols_in = *new std::map<std::string, Symbols>;  // by path
  static const auto& registers = *new std::map<std::string, unsigned>(read_registers());
  Kernel kernel;
  const Place place = place_of(function);
  const std::string shim = place_of(reinterpret_cast<const void*>(&kernel_at)).path;
  if (place.symbol != nullptr && place.path != program && place.path != shim) {  // compiled at run time
    kernel.name = place.symbol;
    return known.emplace(function, std::move(kernel)).first->second;
  }
  auto read = symbols_in.find(place.path);
  if (read == symbols_in.end()) read = symbols_in.emplace(place.path, read_symbols(place.path, place.base)).first;
  const Symbols& symbols = read->second;
  const auto symbol = symbols.functions.find(static_cast<char*>(const_cast<void*>(function)));
  if (symbol == symbols.functions.end())
    throw std::runtime_error("cuda_shim: a kernel that the symbol table does not list");
  const auto& [mangled, file] = symbol->second;
  const Name name = short_name(mangled);
  kernel.name = name.text;
  kernel.mangled = mangled;
  kernel.file = file;
  const std::string prefix = "_ZZ" + std::string(mangled.substr(2)) + "E";
  for (auto v = symbols.locals.lower_bound(prefix); v != symbols.locals.end() && v->first.starts_with(prefix); ++v) {
    kernel.shared.push_back({v->second.at, v->second.bytes});
    kernel.shared_bytes += (v->second.bytes + 15) / 16 * 16;
  }
  // The table has the most of all instances of a template, and of each its own __launch_bounds__ keep the number down.
  if (const auto r = registers.find(kernel.name); r != registers.end()) {
    kernel.listed_registers = r->second;
    if (!name.is_template) kernel.registers = r->second;
  }
  return known.emplace(function, std::move(kernel)).first->second;
}

}  // namespace cuda_shim
