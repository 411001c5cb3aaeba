// One golden case of an operator is one line of a tests/golden/ops_*.h:
//
//   GOLDEN("sum.dims", "randn(2, 3, 4)", "x.sum((0, -1))", sum(x, {0, -1}))
//
// operator.variant; inputs x, y, z, u, v, w, drawn by tests/golden/common.py; what PyTorch computes from them; and what
// we do. make.py reads the first three from this very line, the test runs the last.
#pragma once

#include <cmath>
#include <vector>

#include "core/fused_ops.h"
#include "core/ops.h"
#include "core/ops_complex.h"
#include "core/ops_matrix.h"
#include "core/ops_numeric.h"
#include "core/ops_special.h"
#include "core/special.h"
#include "core/unique.h"

namespace mantissa::test {

using Results = std::vector<Tensor>;

struct Case {
  const char *name, *inputs, *torch;
  Results (*run)(const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& u, const Tensor& v, const Tensor& w);
};

inline void append(Results& all, const Tensor& y) { all.push_back(y); }
inline void append(Results& all, const ValuesIndices& y) { all.insert(all.end(), {y.values, y.indices}); }
inline void append(Results& all, const std::vector<Tensor>& y) { all.insert(all.end(), y.begin(), y.end()); }
inline void append(Results& all, const UniqueResult& y) { all.insert(all.end(), {y.values, y.inverse, y.counts}); }
inline void append(Results& all, const SumAndNorm& y) { all.insert(all.end(), {y.sum, y.y}); }
inline void append(Results& all, const MinMax& y) { all.insert(all.end(), {y.min, y.max}); }
inline void append(Results& all, const StdMean& y) { all.insert(all.end(), {y.std, y.mean}); }
inline void append(Results& all, const EighResult& y) { all.insert(all.end(), {y.values, y.vectors}); }
inline void append(Results& all, const EigResult& y) { all.insert(all.end(), {y.values, y.vectors}); }
inline void append(Results& all, const SvdResult& y) { all.insert(all.end(), {y.u, y.s, y.vh}); }
inline void append(Results& all, const FrexpResult& y) { all.insert(all.end(), {y.mantissa, y.exponent}); }
inline void append(Results& all, const HistogramResult& y) { all.insert(all.end(), {y.hist, y.bin_edges}); }
inline void append(Results& all, const QrResult& y) { all.insert(all.end(), {y.q, y.r}); }
inline void append(Results& all, const LuResult& y) { all.insert(all.end(), {y.p, y.l, y.u}); }
inline void append(Results& all, const PolarResult& y) { all.insert(all.end(), {y.u, y.h}); }
inline void append(Results& all, const LuFactorResult& y) { all.insert(all.end(), {y.lu, y.pivots}); }
inline void append(Results& all, const SlogdetResult& y) { all.insert(all.end(), {y.sign, y.logabsdet}); }
inline void append(Results& all, const VarMean& y) { all.insert(all.end(), {y.var, y.mean}); }
// What modules return: output and weights of attention, output and states of recurrent ones.
template <class Y>
  requires(requires(const Y& y) { y.output; } || requires(const Y& y) { y.h; })
void append(Results& all, const Y& y) {
  const auto add = [&](const Tensor& t) { if (t.defined()) all.push_back(t); };
  if constexpr (requires { y.output; }) add(y.output);
  if constexpr (requires { y.weights; }) add(y.weights);
  if constexpr (requires { y.h; }) add(y.h);
  if constexpr (requires { y.c; }) add(y.c);
}
template <class... Y> Results results(const Y&... y) {
  Results all;
  (append(all, y), ...);
  return all;
}

}  // namespace mantissa::test

#define GOLDEN(name, inputs, torch, ...)                                                                             \
  ::mantissa::test::Case{name, inputs, torch,                                                                        \
      []([[maybe_unused]] const Tensor& x, [[maybe_unused]] const Tensor& y, [[maybe_unused]] const Tensor& z,       \
         [[maybe_unused]] const Tensor& u, [[maybe_unused]] const Tensor& v, [[maybe_unused]] const Tensor& w) {     \
        return ::mantissa::test::results(__VA_ARGS__);                                                               \
      }},
