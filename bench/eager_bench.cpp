// The host cost of an operator: adding one-element tensors, without and with recording, and a
// backward pass over ten multiplications. Prints nanoseconds, the minimum over rounds.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "core/ops.h"

using namespace mantissa;

template <class F> double nanoseconds(int count, F&& body) {
  double best = 1e30;
  for (int round = 0; round < 30; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) body();
    const std::chrono::duration<double, std::nano> t = std::chrono::steady_clock::now() - begin;
    best = std::min(best, t.count() / count);
  }
  return best;
}

int main() {
  const Tensor a = full({1}, 1.5), b = full({1}, 2.5);
  Tensor w = full({1}, 0.5);
  w.requires_grad_();
  std::printf("add, one element, not recorded   %7.1f ns\n", nanoseconds(20000, [&] { (void)add(a, b); }));
  std::printf("add, one element, recorded       %7.1f ns\n", nanoseconds(20000, [&] { (void)add(w, b); }));
  std::printf("add of a number                  %7.1f ns\n", nanoseconds(20000, [&] { (void)(a + 1.0); }));
  std::printf("ten multiplications and backward %7.1f ns\n", nanoseconds(2000, [&] {
                Tensor y = w;
                for (int i = 0; i < 10; ++i) y = y * w;
                backward(sum(y));
                w.set_grad({});
              }));
}
