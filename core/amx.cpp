#include "core/amx.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "core/gemm_half.h"

#if defined(__x86_64__) && defined(__linux__)

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace mantissa {
namespace {

#if defined(MANTISSA_HAS_X86_ISAS)
namespace kernel = cpu_backend::avx512;
bool has_avx512() { return cpu_backend::best_isa() == cpu_backend::Isa::avx512; }
#else
namespace kernel = cpu_backend::baseline;  // compiled for one instruction set only
bool has_avx512() { return true; }
#endif

bool processor_has_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned amx_bf16 = 1u << 22, amx_tile = 1u << 24;  // CPUID leaf 7, edx
  return has_avx512() && __builtin_cpu_supports("avx512bf16") && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
         (d & amx_bf16) && (d & amx_tile);
}
// Linux enables these registers only on request of the process (see its documentation, arch/x86/xstate).
bool system_allows_amx() {
  constexpr long ask = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM for XTILEDATA
  return ::syscall(SYS_arch_prctl, ask, tile_data) == 0;
}

thread_local bool trying = false;  // the trial's own products call uses_amx() too

// Of small integers, whose sums are exact, covering every kind of edge tile.
bool one_product_comes_out_right() {
  constexpr std::int64_t m = 37, n = 45, k = 83, padded = 48 * half_panel;  // k padded to whole tiles
  const auto left = [](std::int64_t i, std::int64_t j) { return static_cast<float>((i * 7 + j * 3) % 17 - 8); };
  const auto right = [](std::int64_t i, std::int64_t j) { return static_cast<float>((i * 5 + j * 11) % 13 - 6); };
  std::vector<BFloat16> a, b;
  for (std::int64_t i = 0; i < m; ++i) for (std::int64_t j = 0; j < k; ++j) a.emplace_back(left(i, j));
  for (std::int64_t i = 0; i < k; ++i) for (std::int64_t j = 0; j < n; ++j) b.emplace_back(right(i, j));
  std::vector<float> c(m * n);
  HalfProduct p{bf16, m, n, k, a.data(), k, 1, b.data(), n, 1, nullptr, c.data(), n, false, nullptr, true};
  constexpr std::int64_t panels = (n + half_panel - 1) / half_panel;
  std::int64_t units = 0;
  kernel::gemm_half_units(p, &units);
  if (units != padded) return false;  // kernels without AMX: a build for one older instruction set
  std::vector<std::uint32_t> packed(static_cast<std::size_t>(units * panels));
  p.packed = packed.data();
  kernel::gemm_half_pack(p, 0, panels);
  kernel::gemm_half(p, 0, m, 0, n);
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (std::int64_t q = 0; q < k; ++q) sum += left(i, q) * right(q, j);
      if (c[static_cast<std::size_t>(i * n + j)] != sum) return false;
    }
  }
  return true;
}

bool find() {
  const char* isa = std::getenv("MANTISSA_ISA");
  return (!isa || !*isa) && processor_has_amx() && system_allows_amx() && amx_trial();
}

enum class Wish { none, off, on };
std::atomic<Wish> wish = Wish::none;

}  // namespace

bool uses_amx() {
  if (trying) return true;
  static const bool found = find();
  const Wish w = wish.load(std::memory_order_relaxed);
  return w == Wish::none ? found : w == Wish::on;
}
void set_amx(bool on) { wish = on ? Wish::on : Wish::off; }
bool amx_trial() {
  struct Trying {
    Trying() { trying = true; }
    ~Trying() { trying = false; }
  } const during;
  return one_product_comes_out_right();
}

}  // namespace mantissa

#else

namespace mantissa {
bool uses_amx() { return false; }
void set_amx(bool) {}
bool amx_trial() { return false; }
}  // namespace mantissa

#endif
