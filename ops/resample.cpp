#include "ops/resample.h"

#include <memory>

#include "ops/apply.h"

namespace mantissa {
namespace {

// The taps of the gradient: element i of x receives from every result that has read it, in their order.
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
};

}  // namespace

Tensor resample(const Tensor& x, Taps rows, Taps columns) {
  return apply(Resample{std::make_shared<const Maps>(Maps{std::move(rows), std::move(columns)})}, x);
}

}  // namespace mantissa
