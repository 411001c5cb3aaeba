// How a training step would scale to more threads than this machine has. It runs on one thread and notes how long each
// block of each parallel_for took; then it deals the blocks out to 2, 4, ... 64 threads, as core/team.h does, and adds
// up what each would take: the serial rest, the last thread of every parallel_for, and a microsecond to hand it out.
// What more threads do to caches, memory and clock rates it does not know: it finds work cut into too few pieces.
//   scaling_bench [NAME] [CALLS]     a workload of bench/workloads.h, such as gpt; of that, so many of the calls that
//                                    lose most on 16 threads, by the address of their loop: addr2line -fCie names it
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/parallel.h"
#include "core/team.h"
#include "workloads.h"

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Call {
  const void* body = nullptr;
  std::vector<double> blocks;  // seconds, the least of all steps
  double total() const {
    double sum = 0;
    for (double t : blocks) sum += t;
    return sum;
  }
  double on(int threads) const {
    std::vector<double> busy(static_cast<std::size_t>(threads));
    for (double t : blocks) *std::min_element(busy.begin(), busy.end()) += t;
    return *std::max_element(busy.begin(), busy.end()) + (blocks.size() > 1 ? 1e-6 : 0);
  }
};
// Every step makes the same calls in the same order.
struct Step {
  std::vector<Call> calls;
  std::size_t next = 0;
  double inside = 0;  // seconds of the step under way in calls
};
Step* recorded = nullptr;
thread_local bool nested = false;

}  // namespace

// In place of core/parallel.cpp: one thread, whose blocks are timed.
namespace mantissa {

void set_num_threads(int) {}
int num_threads() { return 1; }
void set_flush_denormals(bool) {}
void flush_denormals_in_this_thread() {}
void run_serially_in_this_thread() { nested = true; }
void parallel_for_impl(std::int64_t n, std::int64_t grain, RangeBody body, void* state) {
  Call call{reinterpret_cast<const void*>(body), {}};
  const bool outer = !std::exchange(nested, true), timed = outer && recorded;
  const double start = timed ? now() : 0;
  double last = start;
  for (std::int64_t begin = 0; begin < n; begin += grain) {
    body(state, begin, std::min(begin + grain, n));
    if (!timed) continue;
    const double end = now();
    call.blocks.push_back(end - std::exchange(last, end));
  }
  nested = !outer;
  if (!timed) return;
  Step& s = *recorded;
  s.inside += last - start;
  if (s.next == s.calls.size()) s.calls.push_back(call);
  Call& known = s.calls[s.next++];
  check(known.body == call.body && known.blocks.size() == call.blocks.size(), "a step differs from the one before");
  for (std::size_t i = 0; i < call.blocks.size(); ++i) known.blocks[i] = std::min(known.blocks[i], call.blocks[i]);
}

}  // namespace mantissa

namespace {

using namespace mantissa;

struct Batch { Tensor x, y; };
Batch batch_of(const std::string& name) {
  if (name == "gpt") return {randint(0, 65, {8, 128}), randint(0, 65, {8, 128})};
  if (name == "mlp") return {randn({128, 784}), randint(0, 10, {128})};
  if (name == "cnn") return {randn({128, 1, 28, 28}), randint(0, 10, {128})};
  const std::int64_t images = name == "lenet" ? 4 : name == "vit" ? 8 : name == "resnet18" ? 32 : 128;
  return {randn({images, 3, 32, 32}), randint(0, 10, {images})};
}

void measure(const std::string& name, std::optional<Dtype> precision, std::size_t list) {
  bench::Workload w = bench::make_workload(name, cpu);
  const auto [x, y] = batch_of(name);
  const auto step = [&] {  // without clipping, whose calls depend on the norm
    w.optimizer->zero_grad();
    backward(precision ? amp::autocast(*precision, [&] { return bench::loss_of(w.forward(x), y); })
                       : bench::loss_of(w.forward(x), y));
    w.optimizer->step();
  };
  for (int i = 0; i < 3; ++i) step();  // memory and choices settle
  Step s;
  recorded = &s;
  double serial = 1e9;
  const double until = now() + 2;
  for (int i = 0; i < 3 || (now() < until && i < 200); ++i) {
    s.next = 0, s.inside = 0;
    const double start = now();
    step();
    serial = std::min(serial, now() - start - s.inside);
  }
  recorded = nullptr;
  check(!s.calls.empty(), "no parallel_for was seen: it is measured with the static library alone");
  double one = serial;
  for (const Call& c : s.calls) one += c.total();
  fmt::print("{:<9} {:<5} {:9.3f} {:7.1f} %", name, precision ? "bf16" : "f32", 1e3 * one, 100 * serial / one);
  for (int threads : {2, 4, 8, 16, 32, 64}) {
    double t = serial;
    for (const Call& c : s.calls) t += c.on(threads);
    fmt::print(" {:6.1f}", one / t);
  }
  fmt::print("\n");
  if (list == 0) return;

  struct Sum { double total = 0, lost = 0; std::size_t calls = 0, blocks = 0; };
  std::map<const void*, Sum> by_body;
  for (const Call& c : s.calls) {
    Sum& sum = by_body[c.body];
    sum.total += c.total(), sum.lost += c.on(16) - c.total() / 16, ++sum.calls, sum.blocks += c.blocks.size();
  }
  std::vector<std::pair<const void*, Sum>> order(by_body.begin(), by_body.end());
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.second.lost > b.second.lost; });
  Dl_info program{};
  dladdr(reinterpret_cast<const void*>(&now), &program);
  fmt::print("    ms lost   ms in all   calls   blocks\n");
  for (std::size_t i = 0; i < std::min(list, order.size()); ++i) {
    const auto& [body, sum] = order[i];
    fmt::print("{:11.3f} {:11.3f} {:7} {:8.1f}   {:#x}\n", 1e3 * sum.lost, 1e3 * sum.total, sum.calls,
               static_cast<double>(sum.blocks) / static_cast<double>(sum.calls),
               reinterpret_cast<std::uintptr_t>(body) - reinterpret_cast<std::uintptr_t>(program.dli_fbase));
  }
}

}  // namespace

int main(int argc, char** argv) try {
  constexpr const char* all[] = {"mlp", "cnn", "lenet", "simple", "resnet18", "gpt", "vit"};
  const std::string wanted = argc > 1 ? argv[1] : "";
  check(wanted.empty() || std::find(std::begin(all), std::end(all), wanted) != std::end(all), "no workload is called '",
        wanted, "'; there are mlp, cnn, lenet, simple, resnet18, gpt and vit");
  manual_seed(1);
  const std::size_t list = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 0;
  fmt::print("step      dtype   1, ms    serial  times as fast on 2, 4, 8, 16, 32, 64 threads\n");
  for (const char* name : all) {
    if (!wanted.empty() && name != wanted) continue;
    measure(name, std::nullopt, list);
    measure(name, bf16, list);
  }
} catch (const std::exception& e) {
  fmt::print(stderr, "scaling_bench: {}\n", e.what());
  return 1;
}
