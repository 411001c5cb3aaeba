// Several formulas in one pass over memory: the instructions of a program run one after another on a tile of its
// inputs, each with the loop that the formula has as an operator (core/cpu/pointwise_tiles.h), and intermediate results
// stay in the L1 cache. In f32 and f64 the results are therefore bitwise those of the separate operators.
#include "core/fused_program.h"

#include "core/collapse.h"
#include "core/cpu/pointwise_tiles.h"
#include "core/cpu/tile_operand.h"
#include "core/parallel.h"
#include "core/scratch.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

struct WideLoop {
  Dims sizes;
  Dims strides[FusedProgram::most_inputs + 1];  // of the outputs, then of the inputs
};

template <class C> TileFn loop_of(int opcode) {
  const Entry* const tiles[tile_files] = {tiles_0, tiles_1, tiles_2, tiles_3, tiles_4, tiles_5};
  const Entry& e = tiles[opcode % tile_files][opcode / tile_files];
  return std::is_same_v<C, double> ? e.f64 : e.f32;
}

// Assigns a buffer to each instruction's result. A buffer is free again when the last instruction that reads it runs,
// which may write its own result there; outputs keep their buffers.
struct Buffers {
  ScratchVector<int> of;
  int count = 0;

  explicit Buffers(const FusedProgram& p) : of(p.instructions.size()) {
    const int first = p.first_result();
    ScratchVector<int> last_use(p.instructions.size(), -1), free;
    for (int i = 0; i < static_cast<int>(p.instructions.size()); ++i) {
      const FusedProgram::Instruction& now = p.instructions[static_cast<std::size_t>(i)];
      for (int k = 0; k < now.operands; ++k)
        if (now.from[k] >= first) last_use[now.from[k] - first] = i;
    }
    for (int v : p.outputs)
      if (v >= first) last_use[v - first] = INT32_MAX;
    for (int i = 0; i < static_cast<int>(p.instructions.size()); ++i) {
      const FusedProgram::Instruction& now = p.instructions[static_cast<std::size_t>(i)];
      for (int k = 0; k < now.operands; ++k) {
        const int v = now.from[k] - first;
        if (v < 0 || last_use[v] != i) continue;
        free.push_back(of[v]);
        last_use[v] = -1;  // only once, though it may be read twice here
      }
      if (free.empty()) free.push_back(count++);
      of[i] = free.back();
      free.pop_back();
    }
  }
};

// Pointer to the elements of an operand from number `at` on, if they are stored in the compute type and contiguous
// within the row; else null.
template <class C> C* in_place(const View& v, const Dims& sizes, const Dims& strides, std::int64_t at) {
  const int inner = sizes.rank() - 1;
  if (v.dtype != dtype_of<C> || strides[inner] != 1) return nullptr;
  std::int64_t offset = at % sizes[inner], rest = at / sizes[inner];
  for (int d = inner - 1; d >= 0; --d) {
    offset += rest % sizes[d] * strides[d];
    rest /= sizes[d];
  }
  return v.as<C>() + offset;
}

template <class C> void run_program(const FusedProgram& p, std::span<const View> y, std::span<const View* const> x) {
  Dims strides[FusedProgram::most_inputs + 1];
  const Dims* list[FusedProgram::most_inputs + 1] = {&y[0].strides};
  for (std::size_t k = 0; k < x.size(); ++k) {
    strides[k + 1] = broadcast_strides(x[k]->sizes, x[k]->strides, y[0].sizes);
    list[k + 1] = &strides[k + 1];
  }
  const WideLoop loop = collapse_dimensions_in_memory_order<WideLoop>(y[0].sizes, list, static_cast<int>(x.size()) + 1);
  const Buffers buffers(p);
  const auto inputs = static_cast<std::size_t>(p.inputs), first = static_cast<std::size_t>(p.first_result());
  // Long rows are processed one by one, so that their tiles can be read and written in place; short ones are gathered.
  const std::int64_t row = loop.sizes.back();
  const bool by_rows = loop.sizes.rank() == 1 || row >= tile / 2;
  ScratchVector<TileFn> loops;
  for (const FusedProgram::Instruction& i : p.instructions) loops.push_back(loop_of<C>(i.opcode));
  // The output that is an instruction's result; -1: none. A result that is two outputs is copied to the second.
  ScratchVector<int> output_of(p.instructions.size(), -1);
  for (std::size_t k = y.size(); k-- > 0;) {
    if (const auto v = static_cast<std::size_t>(p.outputs[k]); v >= first) output_of[v - first] = static_cast<int>(k);
  }
  parallel_for(y[0].numel(), grain_size, [&](std::int64_t begin, std::int64_t end) {
    ScratchVector<Operand<C>> in(inputs);
    for (std::size_t k = 0; k < inputs; ++k) in[k].init(*x[k], loop.sizes, loop.strides[k + 1]);
    ScratchVector<C> constants(p.constants.size() * tile), memory(static_cast<std::size_t>(buffers.count) * tile);
    ScratchVector<const void*> value(static_cast<std::size_t>(p.values()));
    for (std::size_t k = 0; k < p.constants.size(); ++k) {
      std::fill_n(constants.data() + k * tile, tile, static_cast<C>(p.constants[k]));
      value[inputs + k] = constants.data() + k * tile;
    }
    for (std::int64_t at = begin, n = 0; at < end; at += n) {
      n = std::min({tile, end - at, by_rows ? row - at % row : tile});
      for (std::size_t k = 0; k < inputs; ++k) {
        const C* direct = by_rows ? in_place<C>(*x[k], loop.sizes, loop.strides[k + 1], at) : nullptr;
        value[k] = direct ? direct : in[k].load(at, n);
      }
      for (std::size_t i = 0; i < loops.size(); ++i) {
        const FusedProgram::Instruction& now = p.instructions[i];
        const void* from[3];
        for (int k = 0; k < now.operands; ++k) from[k] = value[static_cast<std::size_t>(now.from[k])];
        C* to = by_rows && output_of[i] >= 0 ? in_place<C>(y[output_of[i]], loop.sizes, loop.strides[0], at) : nullptr;
        if (!to) to = memory.data() + buffers.of[i] * tile;
        loops[i](now.formula.data(), n, to, from, {});
        value[first + i] = to;
      }
      for (std::size_t k = 0; k < y.size(); ++k) {
        const void* from = value[static_cast<std::size_t>(p.outputs[k])];
        if (by_rows && from == in_place<C>(y[k], loop.sizes, loop.strides[0], at)) continue;
        Operand<C>::store(y[k], loop.sizes, loop.strides[0], at, n, static_cast<const C*>(from));
      }
    }
  });
}

}  // namespace

void fused(const FusedProgram& p, std::span<const View> y, std::span<const View* const> x) {
  if (y[0].numel() == 0) return;
  if (p.compute == f64) run_program<double>(p, y, x);
  else run_program<float>(p, y, x);
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
