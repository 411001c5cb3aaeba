#include "ops/resample.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "core/ops.h"
#include "ops/apply.h"
#include "ops/device_table.h"

namespace mantissa {

bool Taps::only_chooses() const {
  for (std::int64_t i = 0; i <= out(); ++i)
    if (start[static_cast<std::size_t>(i)] != i) return false;
  return std::ranges::all_of(weight, [](double w) { return w == 1; });
}

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

struct Resample {
  static constexpr auto name = "resample";
  static constexpr const char* args[] = {"x"};
  std::shared_ptr<const std::vector<Taps>> maps;  // of the last two or three dimensions

  Spec infer(const Tensor& x) const {
    const int dims = static_cast<int>(maps->size());
    check(x.dim() == dims + 2 && (dims == 2 || (dims == 3 && !x.device().is_cpu())),
          "needs [N, C, H, W], or on a GPU [N, C, D, H, W]");
    Dims sizes = x.sizes();
    for (int d = 0; d < dims; ++d) {
      const Taps& t = (*maps)[static_cast<std::size_t>(d)];
      if (t.out() == 0) continue;
      check(sizes[d + 2] == t.in, "the map of dimension ", d + 2, " is for ", t.in, " elements");
      sizes[d + 2] = t.out();
    }
    return like_layout(x, sizes);
  }
  void run(const View& y, const View& x) const {
    const bool chooses = std::ranges::all_of(*maps, &Taps::only_chooses);
    LineMaps lines;
    std::vector<Tensor> tables;  // on a GPU
    const auto kept = [&](Tensor table) { return tables.emplace_back(std::move(table)).view(); };
    for (std::size_t d = 0; d < maps->size(); ++d) {
      const Taps& t = (*maps)[d];
      if (t.out() == 0) continue;
      LineMap& line = lines[d + 3 - maps->size()];
      line.taps = &t;
      if (y.device.is_cpu()) continue;
      const auto taps = static_cast<std::int64_t>(t.at.size());
      line.at = kept(device_table(t.at, {taps}, y.device));
      if (chooses) continue;
      line.start = kept(device_table(t.start, {t.out() + 1}, y.device));
      line.weight = kept(device_table(t.weight, {taps}, compute_dtype(y.dtype), y.device));
    }
    kernels::resample(y.device, y, x, lines);
  }
  static constexpr auto vjp() {
    return rules([](const Resample& op, Grad g) {
      std::vector<Taps> back;
      for (const Taps& t : *op.maps) back.push_back(transposed(t));
      return resample(g, std::move(back));
    });
  }
  // Taps that only select are a Gather; others a product with the taps as a matrix.
  void onnx(OnnxCall& c) const {
    const int dims = static_cast<int>(maps->size());
    const bool halves = is_half(c.x(0).dtype());
    OnnxId y = c.in(0);
    bool wide = false;  // f16 and bf16 are summed in f32
    for (int d = 0; d < dims; ++d) {
      const Taps& t = (*maps)[static_cast<std::size_t>(d)];
      if (t.out() == 0) continue;
      if (t.only_chooses()) {
        y = c.node("Gather", {y, c.ints(t.at)}, {{"axis", d + 2}});
        continue;
      }
      if (!wide && halves) y = c.cast(y, f32);
      wide = true;
      if (d == dims - 1) y = c.node("MatMul", {y, onnx_matrix(c, t, true)});
      else if (d == dims - 2) y = c.node("MatMul", {onnx_matrix(c, t, false), y});
      else y = onnx_along_depth(c, y, t);
    }
    c.result(wide && halves ? c.cast(y, c.y().dtype()) : y);
  }

 private:
  static OnnxId onnx_matrix(OnnxCall& c, const Taps& t, bool turned) {
    const std::int64_t n = t.in, m = t.out();
    std::vector<double> w(static_cast<std::size_t>(n * m), 0);
    for (std::int64_t o = 0; o < m; ++o) {
      for (auto k = static_cast<std::size_t>(t.start[static_cast<std::size_t>(o)]);
           k < static_cast<std::size_t>(t.start[static_cast<std::size_t>(o) + 1]); ++k)
        w[static_cast<std::size_t>(turned ? t.at[k] * m + o : o * n + t.at[k])] += t.weight[k];
    }
    return c.table(w, turned ? Dims{n, m} : Dims{m, n}, compute_dtype(c.x(0).dtype()));
  }
  // The first of three dimensions, before the others: slices as rows of one matrix.
  static OnnxId onnx_along_depth(OnnxCall& c, OnnxId y, const Taps& t) {
    y = c.node("MatMul", {onnx_matrix(c, t, false), c.node("Reshape", {y, c.ints({0, 0, t.in, -1})})});
    return c.node("Reshape", {y, c.ints({0, 0, t.out(), c.x(0).size(3), c.x(0).size(4)})});
  }
};

}  // namespace

Tensor resample(const Tensor& x, std::vector<Taps> maps) {
  if (maps.size() == 1) {  // [N, C, L]: rows of images that are one row high
    Tensor y = resample(unsqueeze(x, 2), {Taps(), std::move(maps[0])});
    return squeeze(y, 2);
  }
  return apply(Resample{std::make_shared<const std::vector<Taps>>(std::move(maps))}, x);
}

}  // namespace mantissa
