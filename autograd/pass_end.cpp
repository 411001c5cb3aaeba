#include "autograd/pass_end.h"

#include <atomic>
#include <utility>
#include <vector>

#include "core/error.h"

namespace mantissa::autograd {
namespace {

constinit thread_local int depth = 0;
constinit thread_local std::uint64_t number = 0;
thread_local std::vector<std::function<void()>> at_end;
constinit thread_local RunningPass* innermost = nullptr;

}  // namespace

void at_end_of_backward(std::function<void()> f) {
  check(depth > 0, "at_end_of_backward: no backward pass runs in this thread; it is for hooks");
  (void)backward_number();
  at_end.push_back(std::move(f));
}
std::uint64_t backward_number() {
  static constinit std::atomic<std::uint64_t> last{0};
  if (depth > 0 && number == 0) number = 1 + last.fetch_add(1, std::memory_order_relaxed);
  return number;
}

RunningPass::RunningPass() : around_(innermost) {
  innermost = this;
  ++depth;
}
RunningPass::~RunningPass() {
  innermost = around_;
  if (--depth > 0) return;
  if (number != 0) {  // the number was requested
    number = 0;
    at_end.clear();
  }
}
void RunningPass::end() {
  if (depth > 1 || number == 0) return;
  for (const auto& f : std::exchange(at_end, {})) f();
}
std::vector<Tensor>& gradients_of_results(const Node* node) { return innermost->of_results_[node]; }

}  // namespace mantissa::autograd
