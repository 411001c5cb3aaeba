// Emulates AMX on machines without it: an AMX instruction raises SIGILL there, and the signal handler performs what the
// instruction would do, on emulated tile registers (one set per thread), then continues after it. So the code that runs
// is the program's own machine code. Whatever Intel's manual forbids (unconfigured tiles, shapes that do not fit,
// reserved bits) ends the program with a message. Source: Intel 64 and IA-32 Architectures Software Developer's Manual,
// volume 2: LDTILECFG, TILELOADD, TILESTORED, TILEZERO, TILERELEASE, TDPBF16PS.
#pragma once

#if defined(__x86_64__) && defined(__linux__)
#define MANTISSA_HAS_AMX_MACHINE 1

#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace amx_machine {

struct Tile {
  int rows = 0, row_bytes = 0;
  std::uint8_t data[16][64] = {};
};
inline thread_local std::array<Tile, 8> tiles;
inline thread_local bool configured = false;
inline std::atomic<long> products{0}, configurations{0}, releases{0};
inline std::atomic<bool> broken{false};  // test of the tests: products drop their odd elements

[[noreturn]] inline void refuse(const char* what) {  // in a signal handler: no streams, no memory
  [[maybe_unused]] auto n = ::write(2, "amx_machine: ", 13);
  n = ::write(2, what, std::strlen(what));
  n = ::write(2, "\n", 1);
  ::_exit(3);
}
inline void require(bool ok, const char* what) {
  if (!ok) refuse(what);
}
inline Tile& tile(unsigned t) {
  require(configured, "a tile is used before ldtilecfg");
  require(t < 8, "there are eight tiles");
  require(tiles[t].rows > 0, "a tile is used that has no rows");
  return tiles[t];
}

inline void load_configuration(const std::uint8_t* p) {
  require(p[0] == 1, "palette 1 is the only one");
  require(p[1] == 0, "start_row is not 0");
  for (int i = 2; i < 16; ++i) require(p[i] == 0, "a reserved byte is not 0");
  for (int t = 0; t < 16; ++t) {
    std::uint16_t bytes = 0;
    std::memcpy(&bytes, p + 16 + 2 * t, 2);
    const int rows = p[48 + t];
    require(t < 8 || (bytes == 0 && rows == 0), "there are eight tiles");
    require(bytes <= 64 && rows <= 16 && (bytes == 0) == (rows == 0), "a tile has at most 16 rows of 64 bytes");
    if (t < 8) tiles[static_cast<std::size_t>(t)] = {rows, bytes, {}};
  }
  configured = true;
  ++configurations;
}

// Subnormal inputs and results are flushed to zero.
inline float flushed(float v) { return std::fpclassify(v) == FP_SUBNORMAL ? std::copysign(0.0f, v) : v; }
inline float widened(const std::uint8_t* p) {
  std::uint16_t half = 0;
  std::memcpy(&half, p, 2);
  return flushed(std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16));
}
inline void add_product(Tile& sums, const Tile& left, const Tile& right) {
  require(&sums != &left && &sums != &right && &left != &right, "three tiles, all different");
  require(left.rows == sums.rows && right.row_bytes == sums.row_bytes && left.row_bytes / 4 == right.rows,
          "shapes of a product do not fit");
  for (int m = 0; m < sums.rows; ++m) {
    for (int n = 0; n < sums.row_bytes / 4; ++n) {
      float even = 0, odd = 0;
      for (int k = 0; k < left.row_bytes / 4; ++k) {
        even = flushed(std::fma(widened(left.data[m] + 4 * k), widened(right.data[k] + 4 * n), even));
        odd = flushed(std::fma(widened(left.data[m] + 4 * k + 2), widened(right.data[k] + 4 * n + 2), odd));
      }
      float sum = 0;
      std::memcpy(&sum, sums.data[m] + 4 * n, 4);
      sum = flushed(flushed(sum) + flushed(broken ? even : even + odd));
      std::memcpy(sums.data[m] + 4 * n, &sum, 4);
    }
  }
  ++products;
}

// The general-purpose register with this number in an instruction.
inline long long& general(ucontext_t* context, unsigned number) {
  constexpr int order[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                           REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return context->uc_mcontext.gregs[order[number]];
}

// Executes one instruction; false if it is not AMX.
inline bool execute(ucontext_t* context) {
  auto& next = context->uc_mcontext.gregs[REG_RIP];
  const auto* at = reinterpret_cast<const std::uint8_t*>(next);
  // Three-byte VEX prefix, map 0F38, W0, 128 bits.
  if (at[0] != 0xc4 || (at[1] & 0x1f) != 2 || (at[2] & 0x84) != 0) return false;
  const unsigned r = at[1] & 0x80 ? 0 : 8, x = at[1] & 0x40 ? 0 : 8, b = at[1] & 0x20 ? 0 : 8;
  const unsigned third = ~(at[2] >> 3) & 15, prefix = at[2] & 3, code = at[3];
  const unsigned mode = at[4] >> 6, reg = (at[4] >> 3 & 7) + r, rm = at[4] & 7;
  enum { none, p66, pf3, pf2 };
  const std::uint8_t* end = at + 5;

  if (mode == 3) {
    if (code == 0x49 && prefix == none && at[4] == 0xc0) {
      configured = false;
      tiles = {};
      ++releases;
    } else if (code == 0x49 && prefix == pf2 && rm == 0) {
      std::memset(tile(reg).data, 0, sizeof tile(reg).data);
    } else if (code == 0x5c && prefix == pf3) {
      add_product(tile(reg), tile(rm + b), tile(third));
    } else {
      return false;
    }
    next = reinterpret_cast<long long>(end);
    return true;
  }

  // Address operand: base, index and displacement.
  long long base = 0, index = 0, displacement = 0;
  bool has_base = true;
  unsigned scale = 0;
  if (rm == 4) {
    const unsigned sib = *end++, low = sib & 7, middle = (sib >> 3 & 7) + x;
    scale = sib >> 6;
    if (middle != 4) index = general(context, middle);
    has_base = low != 5 || mode != 0;
    if (has_base) base = general(context, low + b);
  } else if (rm == 5 && mode == 0) {
    has_base = false;  // RIP-relative: counts from the next instruction
  } else {
    base = general(context, rm + b);
  }
  if (mode == 1) displacement = static_cast<std::int8_t>(*end++);
  if (mode == 2 || !has_base) {
    std::int32_t wide = 0;
    std::memcpy(&wide, end, 4);
    displacement = wide, end += 4;
  }
  if (rm == 5 && mode == 0) base = reinterpret_cast<long long>(end);
  const long long place = base + displacement, step = index << scale;

  if (code == 0x49 && prefix == none && reg % 8 == 0) {
    load_configuration(reinterpret_cast<const std::uint8_t*>(place + step));
  } else if (code == 0x4b && rm == 4 && (prefix == pf2 || prefix == p66 || prefix == pf3)) {
    Tile& t = tile(reg);
    for (int row = 0; row < t.rows; ++row) {
      auto* memory = reinterpret_cast<std::uint8_t*>(place + row * step);
      if (prefix == pf3) {
        std::memcpy(memory, t.data[row], static_cast<std::size_t>(t.row_bytes));
      } else {
        std::memset(t.data[row], 0, 64);
        std::memcpy(t.data[row], memory, static_cast<std::size_t>(t.row_bytes));
      }
    }
  } else {
    return false;
  }
  next = reinterpret_cast<long long>(end);
  return true;
}

// Emulates AMX during its lifetime.
class Machine {
 public:
  Machine() {
    struct sigaction action {};
    action.sa_sigaction = [](int, siginfo_t*, void* context) {
      if (!execute(static_cast<ucontext_t*>(context))) refuse("an illegal instruction that is none of AMX");
    };
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGILL, &action, &before_);
  }
  ~Machine() { ::sigaction(SIGILL, &before_, nullptr); }
  Machine(const Machine&) = delete;

 private:
  struct sigaction before_ {};
};

}  // namespace amx_machine
#endif
