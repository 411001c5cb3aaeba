// What the files of the PTX interpreter share: ptx_text.cpp reads a file and its functions, ptx_arithmetic.cpp,
// ptx_memory.cpp and ptx_warp.cpp decode and execute instructions, ptx.cpp runs a kernel's threads.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace cuda_shim::ptx {

// --- what executes ---
using Slot = std::uint32_t;  // of a register or a constant in a frame's values
inline constexpr Slot no_slot = ~Slot{0};

struct Frame;
struct Function;
struct Instruction {
  using Step = void (*)(Frame&, const Instruction&);
  Step step = nullptr;
  Slot condition = no_slot;  // a predicate; the instruction is skipped where it is false, or true if `negated`
  bool negated = false;
  Slot d = no_slot, a = no_slot, b = no_slot, c = no_slot;
  std::int64_t number = 0;  // offset of an address, target of a branch, an immediate
  std::vector<Slot> list;   // registers in braces, and what else is many
  const Function* called = nullptr;
};

// Values that a frame knows only when it begins: where its block's shared memory, its parameters and its local memory
// are.
enum class Base { shared, dynamic_shared, parameters, local };
struct Relocation {
  Slot slot;
  Base base;
  std::int64_t offset;
};
struct Parameter {
  std::int64_t offset = 0;
  std::size_t bytes = 0;
};
struct Function {
  std::string_view name;
  std::vector<Parameter> parameters;  // of a function that returns something, its result is the first
  std::size_t parameter_bytes = 0, call_bytes = 0, local_bytes = 0;
  std::size_t shared_bytes = 0;       // static
  std::size_t most_threads = 0;       // .maxntid
  bool waits = false, waits_first = true;  // griddepcontrol.wait; nothing before it accesses global memory
  std::vector<std::uint64_t> values;  // registers, and behind them constants
  std::vector<Relocation> relocations;
  std::vector<Instruction> code;
};

// Registers of wgmma, which products under way write (ptx_warp.cpp).
struct Accumulators {
  std::vector<Slot> slots;
  std::vector<float> values;
  std::uint64_t group = 0;  // commit that ends their last product
};
struct Frame {
  std::uint64_t* values = nullptr;
  std::size_t next = 0;  // instruction
  char* parameters = nullptr;
  char* call = nullptr;  // parameters of functions that it calls
  bool carry = false;
  std::vector<std::unique_ptr<Accumulators>> accumulators;
  std::uint64_t commits = 0;
};
void call(const Function& f, char* parameters);  // of the running thread

template <class T> T get(const Frame& f, Slot s) {
  T v;
  std::memcpy(&v, f.values + s, sizeof v);
  return v;
}
template <class T> void set(Frame& f, Slot s, T v) {
  if (s == no_slot) return;  // "_"
  std::uint64_t bits = 0;
  std::memcpy(&bits, &v, sizeof v);
  f.values[s] = bits;
}

// In a wider register a signed number keeps its value.
template <class T> void extend(Frame& f, Slot s, T v) {
  if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) set(f, s, std::int64_t{v});
  else set(f, s, v);
}

// --- what is read ---
enum class Space { generic, shared, parameter, call };
struct Operand {
  enum class Kind { value, list, address, label, special, ignored };
  Kind kind = Kind::ignored;
  Slot slot = no_slot, predicate = no_slot;  // "slot|predicate"; an address's base
  std::vector<Slot> list;                    // also the coordinates of a tensor address
  std::int64_t offset = 0;
  Space space = Space::generic;  // of an address whose base is a parameter
  std::string_view name;
};
struct Statement {
  std::string_view text;                // the opcode
  std::vector<std::string_view> words;  // "add", "rn", "f32"
  std::vector<Operand> operands;
  bool has(std::string_view word) const {
    for (std::string_view w : words)
      if (w == word) return true;
    return false;
  }
  std::string_view type(std::size_t from_the_end = 0) const { return words[words.size() - 1 - from_the_end]; }
  Slot slot(std::size_t i) const { return operands.at(i).slot; }
};
[[noreturn]] inline void fail(const std::string& text) { throw std::runtime_error("cuda_shim: PTX: " + text); }
[[noreturn]] inline void fail_unknown(const Statement& s) { fail("unknown instruction " + std::string(s.text)); }

// True if the instruction is one of theirs.
bool decode_arithmetic(const Statement& s, Instruction& i);
bool decode_memory(const Statement& s, Instruction& i);
bool decode_warp(const Statement& s, Instruction& i);

// A type by name: f(T()) for the C++ type that has its bits and signs.
template <class F> void with_type(std::string_view name, F&& f) {
  if (name == "u8" || name == "b8") f(std::uint8_t());
  else if (name == "s8") f(std::int8_t());
  else if (name == "u16" || name == "b16") f(std::uint16_t());
  else if (name == "s16") f(std::int16_t());
  else if (name == "u32" || name == "b32") f(std::uint32_t());
  else if (name == "s32") f(std::int32_t());
  else if (name == "u64" || name == "b64") f(std::uint64_t());
  else if (name == "s64") f(std::int64_t());
  else if (name == "f32") f(float());
  else if (name == "f64") f(double());
  else if (name == "pred") f(std::uint8_t());  // 0 or 1
  else fail("unknown type " + std::string(name));
}

// A file's functions, by name; their bodies are read when they are first asked for.
class Module {
 public:
  explicit Module(std::string text);
  bool has_kernel(std::string_view name) const { return kernels_.contains(name); }
  const std::map<std::string_view, std::size_t>& kernels() const { return kernels_; }
  const Function& function(std::string_view name);

 private:
  friend class Reader;
  std::string text_;
  std::map<std::string_view, std::size_t> kernels_, functions_;  // where ".entry" or ".func" stands in the text
  std::map<std::string_view, std::unique_ptr<Function>> read_;
  std::map<std::string_view, std::vector<std::uint64_t>> globals_;  // constant tables
  std::string_view dynamic_shared_;                                 // the name of its array
};

}  // namespace cuda_shim::ptx
