#include "ops/resample.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "ops/apply.h"

namespace mantissa {
namespace {

// The taps of the gradient: each element of x receives from every result that read it, in their order.
Taps transposed(const Taps& t) {
  Taps back;
  if (t.out() == 0) return back;
  const auto index = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  back.in = t.out();
  back.start.assign(index(t.in + 1), 0);
  for (const std::int64_t from : t.at) ++back.start[index(from + 1)];
  for (std::int64_t i = 0; i < t.in; ++i) back.start[index(i + 1)] += back.start[index(i)];
  back.at.resize(t.at.size());
  back.weight.resize(t.at.size());
  std::vector<std::int64_t> next = back.start;
  for (std::int64_t i = 0; i < t.out(); ++i) {
    for (std::int64_t k = t.start[index(i)]; k < t.start[index(i + 1)]; ++k) {
      const std::size_t place = index(next[index(t.at[index(k)])]++);
      back.at[place] = i;
      back.weight[place] = t.weight[index(k)];
    }
  }
  return back;
}

struct Maps {
  Taps rows, columns;
};

struct Resample {
  static constexpr auto name = "resample";
  static constexpr const char* args[] = {"x"};
  std::shared_ptr<const Maps> maps;

  Spec infer(const Tensor& x) const {
    check(x.dim() == 4 && x.device().is_cpu(), "needs [N, C, H, W] on the CPU");
    Dims sizes = x.sizes();
    int d = 2;
    for (const Taps* t : {&maps->rows, &maps->columns}) {
      if (t->out() > 0) {
        check(sizes[d] == t->in, "the map of dimension ", d, " is for ", t->in, " elements");
        sizes[d] = t->out();
      }
      ++d;
    }
    return like_layout(x, sizes);
  }
  void run(const View& y, const View& x) const { kernels::resample(x.device, y, x, maps->rows, maps->columns); }
  static constexpr auto vjp() {
    return rules([](const Resample& op, Grad g) {
      return resample(g, transposed(op.maps->rows), transposed(op.maps->columns));
    });
  }
  // Taps that only select are a Gather; others are rows * x * columns, with the taps as matrices.
  void onnx(OnnxCall& c) const {
    const auto chooses = [](const Taps& t) {
      const auto one = [](double w) { return w == 1; };
      return t.at.size() + 1 == t.start.size() && std::ranges::all_of(t.weight, one);
    };
    const auto matrix = [&](const Taps& t, bool turned) {
      const std::int64_t n = t.in, m = t.out();
      std::vector<double> w(static_cast<std::size_t>(n * m), 0);
      for (std::int64_t o = 0; o < m; ++o) {
        for (auto k = static_cast<std::size_t>(t.start[static_cast<std::size_t>(o)]);
             k < static_cast<std::size_t>(t.start[static_cast<std::size_t>(o) + 1]); ++k)
          w[static_cast<std::size_t>(turned ? t.at[k] * m + o : o * n + t.at[k])] += t.weight[k];
      }
      return c.table(w, turned ? Dims{n, m} : Dims{m, n}, compute_dtype(c.x(0).dtype()));
    };
    OnnxId y = c.in(0);
    bool wide = false;  // f16 and bf16 are summed in f32
    for (const bool columns : {false, true}) {
      const Taps& t = columns ? maps->columns : maps->rows;
      if (t.out() == 0) continue;
      if (chooses(t)) {
        y = c.node("Gather", {y, c.ints(t.at)}, {{"axis", columns ? 3 : 2}});
        continue;
      }
      if (!wide && is_half(c.x(0).dtype())) y = c.cast(y, f32);
      wide = true;
      y = columns ? c.node("MatMul", {y, matrix(t, true)}) : c.node("MatMul", {matrix(t, false), y});
    }
    c.result(wide && is_half(c.x(0).dtype()) ? c.cast(y, c.y().dtype()) : y);
  }
};

}  // namespace

Tensor resample(const Tensor& x, Taps rows, Taps columns) {
  return apply(Resample{std::make_shared<const Maps>(Maps{std::move(rows), std::move(columns)})}, x);
}

}  // namespace mantissa
