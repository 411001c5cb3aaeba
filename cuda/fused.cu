// Fused programs: their source is generated and compiled once, then launched like elementwise kernels.
#include "core/fused_program.h"

#include <map>
#include <mutex>

#include "cuda/compiled.h"
#include "cuda/elementwise.h"
#include "cuda/fused_text.h"
#include "cuda/launch.cuh"
#include "cuda/vec.cuh"
#include "cuda/walk.cuh"

namespace mantissa::cuda_backend {

namespace {

struct Kernels {
  const CompiledKernel *packs = nullptr, *elements = nullptr;
};
// The kernels of a program on a device. Generating the source is slow, so it is done once.
Kernels kernels_of(const FusedProgram& program, Device device) {
  static std::mutex mutex;
  static auto& known =
      *new std::map<std::pair<std::uint64_t, int>, Kernels>;  // never destroyed: kernels may be launched at exit
  const std::lock_guard lock(mutex);
  Kernels& k = known[{program.id, device.index}];
  if (!k.packs) {
    const std::string text = text_of(program);
    k = {&compile(text, "fused_packs", device), &compile(text, "fused_elements", device)};
  }
  return k;
}

}  // namespace

bool can_fuse() { return can_compile(); }

void fused(const FusedProgram& program, std::span<const View> y, std::span<const View* const> x) {
  if (y[0].numel() == 0) return;
  struct State {
    Dtype compute;
    Kernels kernels;
  } state{program.compute, kernels_of(program, y[0].device)};
  for_indexable_parts(
      plan_fused(y, x),
      [](const void* s, const FusedLoop& part) {
        const State& now = *static_cast<const State*>(s);
        const bool packs = can_use_packs(part, now.compute);
        const auto walk = walk_of<FusedProgram::most_outputs + FusedProgram::most_inputs - 1>(part);
        const Grid grid = grid_for(walk.count, packs ? pack : 4);
        if (records_here()) note_parameter<std::remove_const_t<decltype(walk)>>(walk);
        launch_compiled(packs ? *now.kernels.packs : *now.kernels.elements, grid.blocks.x, grid.threads.x, &walk,
                        sizeof walk);
      },
      &state);
}

}  // namespace mantissa::cuda_backend
