// Instructions of one thread that read and write memory. Addresses of global and local memory, and generic ones, are
// those of the host; shared memory has addresses of its own, as in fibers.h. All must be aligned, as on a GPU.
#include <cuda_runtime.h>

#include <algorithm>
#include <type_traits>

#include "cuda/ptx.cuh"
#include "tests/cuda_shim/fibers.h"
#include "tests/cuda_shim/ptx_counts.h"
#include "tests/cuda_shim/ptx_parts.h"

namespace cuda_shim::ptx {
namespace {

enum class Where { host, local, shared, parameters, call };

template <Where where>
char* address(Frame& f, const Instruction& at, std::size_t bytes, const char* what, Access access = Access::load) {
  char* p = nullptr;
  if constexpr (where == Where::parameters) p = f.parameters + at.number;
  else if constexpr (where == Where::call) p = f.call + at.number;
  else if constexpr (where == Where::host || where == Where::local)
    p = reinterpret_cast<char*>(get<std::uint64_t>(f, at.a)) + at.number;
  else p = shared_at(own_block(), get<std::uint32_t>(f, at.a) + static_cast<std::uint32_t>(at.number), bytes, what);
  check_aligned(p, bytes, what);
  if (counting && where == Where::shared)
    count_access(&at, Access::shared, get<std::uint32_t>(f, at.a) + static_cast<std::uint64_t>(at.number), bytes);
  // Parameters, of which there are at most 4 KiB, are read by computed addresses where a kernel indexes them.
  if (counting && where == Where::host && (p < f.parameters || p >= f.parameters + 4096))
    count_access(&at, access, reinterpret_cast<std::uintptr_t>(p), bytes);
  return p;
}

template <Where where, class T> void load(Frame& f, const Instruction& at) {
  T v[4];
  const std::size_t count = at.list.empty() ? 1 : at.list.size(), bytes = count * sizeof(T);
  std::memcpy(v, address<where>(f, at, bytes, "ld"), bytes);
  if (at.list.empty()) return extend(f, at.d, v[0]);
  for (std::size_t k = 0; k < count; ++k) extend(f, at.list[k], v[k]);
}
template <Where where, class T> void store(Frame& f, const Instruction& at) {
  T v[4];
  const std::size_t count = at.list.empty() ? 1 : at.list.size(), bytes = count * sizeof(T);
  if (at.list.empty()) v[0] = get<T>(f, at.d);
  for (std::size_t k = 0; k < at.list.size(); ++k) v[k] = get<T>(f, at.list[k]);
  std::memcpy(address<where>(f, at, bytes, "st", Access::store), v, bytes);
}

void use_address(const Operand& o, Instruction& i) {
  if (o.kind != Operand::Kind::address) fail("an address was expected");
  i.a = o.slot;
  i.number = o.offset;
}
Where where(const Statement& s, const Operand& o) {
  if (o.space == Space::parameter) return Where::parameters;
  if (o.space == Space::call) return Where::call;
  return s.has("shared") || s.has("shared::cta") ? Where::shared : s.has("local") ? Where::local : Where::host;
}
void load_or_store(const Statement& s, Instruction& i) {
  const bool loads = s.words[0] == "ld";
  const Operand &memory = s.operands.at(loads ? 1 : 0), &registers = s.operands.at(loads ? 0 : 1);
  use_address(memory, i);
  i.d = registers.slot;
  i.list = registers.list;
  if ((s.has("v2") ? 2u : s.has("v4") ? 4u : 0u) != i.list.size()) fail_unknown(s);
  with_type(s.type(), [&]<class T>(T) {
    const auto use = [&]<Where w>() { i.step = loads ? &load<w, T> : &store<w, T>; };
    switch (where(s, memory)) {
      case Where::host: return use.template operator()<Where::host>();
      case Where::local: return use.template operator()<Where::local>();
      case Where::shared: return use.template operator()<Where::shared>();
      case Where::parameters: return use.template operator()<Where::parameters>();
      case Where::call: return use.template operator()<Where::call>();
    }
  });
}

template <Where where, class T, class F> void atomic(Frame& f, const Instruction& at) {
  T* p = reinterpret_cast<T*>(address<where>(f, at, sizeof(T), "atom"));
  const T v = get<T>(f, at.b);
  set(f, at.d, cuda_shim_atomic(p, [&](T old) { return static_cast<T>(F()(old, v)); }));
}
template <class T, class F> void atomic(const Statement& s, Instruction& i, F) {
  if (s.has("global")) i.step = &atomic<Where::host, T, F>;
  else if (s.has("shared")) i.step = &atomic<Where::shared, T, F>;
  else fail_unknown(s);
}
void atom(const Statement& s, Instruction& i) {
  const bool returns = s.words[0] == "atom";
  if (returns) i.d = s.slot(0);
  use_address(s.operands.at(returns ? 1 : 0), i);
  i.b = s.slot(returns ? 2 : 1);
  with_type(s.type(), [&]<class T>(T) {
    if (s.has("exch")) return atomic<T>(s, i, [](T, T v) { return v; });
    if (s.has("add")) return atomic<T>(s, i, [](T a, T b) { return static_cast<T>(a + b); });
    if (s.has("max")) return atomic<T>(s, i, [](T a, T b) { return std::max(a, b); });
    if (s.has("min")) return atomic<T>(s, i, [](T a, T b) { return std::min(a, b); });
    if constexpr (std::is_integral_v<T>) {
      if (s.has("or")) return atomic<T>(s, i, [](T a, T b) { return static_cast<T>(a | b); });
      if (s.has("and")) return atomic<T>(s, i, [](T a, T b) { return static_cast<T>(a & b); });
    }
    fail_unknown(s);
  });
}

// Global, local and parameter addresses are generic ones; shared addresses are not.
void convert_address(const Statement& s, Instruction& i) {
  i.d = s.slot(0), i.a = s.slot(1);
  const bool to = s.has("to");
  if (!s.has("shared")) {
    i.step = [](Frame& f, const Instruction& at) { set(f, at.d, get<std::uint64_t>(f, at.a)); };
  } else if (to) {
    i.step = [](Frame& f, const Instruction& at) {
      set(f, at.d, std::uint64_t{shared_address(get<const char*>(f, at.a))});
    };
  } else {
    i.step = [](Frame& f, const Instruction& at) {
      set(f, at.d, shared_at(own_block(), get<std::uint32_t>(f, at.a), 0, "cvta"));
    };
  }
}

// Copies of 16 bytes to shared memory that are waited for.
void copy_async(const Statement& s, Instruction& i) {
  if (s.text == "cp.async.cg.shared.global") {
    use_address(s.operands.at(0), i);
    const Operand& from = s.operands.at(1);
    if (from.kind != Operand::Kind::address || from.offset != 0 || s.operands.at(2).name != "16") fail_unknown(s);
    i.b = from.slot;
    i.c = s.slot(3);
    i.step = [](Frame& f, const Instruction& at) {
      char* to = address<Where::shared>(f, at, 16, "place of cp.async in shared memory");
      if (counting) count_access(&at.b, Access::load, get<std::uint64_t>(f, at.b), 16);
      mantissa::ptx::copy_async_16(to, get<const char*>(f, at.b), get<std::int32_t>(f, at.c));
    };
  } else if (s.text == "cp.async.commit_group") {
    i.step = [](Frame&, const Instruction&) { mantissa::ptx::copy_async_commit(); };
  } else if (s.text == "cp.async.wait_group") {
    i.a = s.slot(0);
    i.step = [](Frame& f, const Instruction& at) {
      switch (get<std::uint32_t>(f, at.a)) {
        case 0:
          return mantissa::ptx::copy_async_wait<0>();
        case 1:
          return mantissa::ptx::copy_async_wait<1>();
        case 2:
          return mantissa::ptx::copy_async_wait<2>();
        case 3:
          return mantissa::ptx::copy_async_wait<3>();
        default:
          fail("cp.async.wait_group of more than 3");
      }
    };
  } else {
    fail_unknown(s);
  }
}

}  // namespace

bool decode_memory(const Statement& s, Instruction& i) {
  const std::string_view op = s.words[0];
  if (s.has("shared::cluster") || s.has("acquire") || s.has("release")) return false;  // between blocks: ptx_warp.cpp
  if (op == "ld" || op == "st") load_or_store(s, i);
  else if (op == "atom" || op == "red") atom(s, i);
  else if (op == "cvta") convert_address(s, i);
  else if (op == "cp" && !s.has("bulk")) copy_async(s, i);
  else if (op == "membar") i.step = [](Frame&, const Instruction&) {};
  else return false;
  return true;
}

}  // namespace cuda_shim::ptx
