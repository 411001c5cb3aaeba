// Random nestings of autocast regions compared with a model that is just a stack: 100,000 regions over devices, dtypes,
// enabled and cache flags, policies, captured states, exceptions and threads. Next: tests/amp_test.cpp.
#include <array>
#include <thread>
#include <vector>

#include "amp/autocast.h"
#include "core/ops.h"
#include "tests/catch_compat.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using amp::Autocast;
using amp::AutocastOptions;
using amp::Policies;

namespace {

constexpr Dtype dtypes[] = {f16, bf16, f32};

// The expected state of a thread's regions, independent of the implementation.
struct Model {
  std::array<bool, 2> enabled{};
  std::array<Dtype, 2> dtype{bf16, f16};
  amp::CastCache cache = amp::CastCache::kept;
  int depth = 0;
  CastPolicy exp = CastPolicy::f32, softmax = CastPolicy::f32_inside;  // by the regions' policies

  void enter(int device, Dtype d) {
    enabled[static_cast<std::size_t>(device)] = d != f32;
    if (d != f32) dtype[static_cast<std::size_t>(device)] = d;
  }
};

struct Unwind {
  int levels;
};

class Walk {
 public:
  explicit Walk(std::uint64_t stream) : random_{seed()}, stream_(stream) {}
  int regions = 0, failures = 0, threads = 0, unwound = 0;

  void nest(const Model& model, int depth) {
    verify(model);
    if (depth == 0) return;
    for (std::uint32_t k = choose(4); k > 0; --k) {
      try {
        enter_one(model, depth);
      } catch (const Unwind& u) {
        verify(model);
        if (u.levels > 0 && depth < 7) throw Unwind{u.levels - 1};
      }
      verify(model);
    }
  }

 private:
  std::uint32_t choose(std::uint32_t n) { return random_(draw_++, stream_).v[0] % n; }

  void enter_one(const Model& model, int depth) {
    ++regions;
    Model inner = model;
    ++inner.depth;
    switch (choose(12)) {
      case 0: case 1: {
        const Dtype d = dtypes[choose(3)];
        const Autocast scope(d);
        inner.enter(0, d);
        inner.enter(1, d);
        return inside(inner, depth);
      }
      case 2: {
        const int device = static_cast<int>(choose(2));
        const Dtype d = dtypes[choose(3)];
        const Autocast scope(device ? cuda : cpu, d);
        inner.enter(device, d);
        return inside(inner, depth);
      }
      case 3: {
        const Autocast scope(amp::disabled);
        inner.enabled = {false, false};
        return inside(inner, depth);
      }
      case 4: {  // the state of some earlier place, wherever this is
        if (kept_.empty()) return;
        const auto [state, then] = kept_[choose(static_cast<std::uint32_t>(kept_.size()))];
        const Autocast scope(state);
        return inside(then, depth);
      }
      case 5: {
        kept_.emplace_back(amp::capture(), model);
        if (kept_.size() > 20) kept_.erase(kept_.begin());
        return;
      }
      case 6: return on_thread(model, depth);
      default: return with_options(inner, depth);
    }
  }

  void with_options(Model inner, int depth) {
    AutocastOptions o;
    if (choose(2)) o.dtype = dtypes[choose(3)];
    if (choose(3) == 0) o.device = choose(2) ? cuda : cpu;
    o.enabled = choose(4) != 0;
    if (choose(3) == 0) inner.cache = *(o.cache = static_cast<amp::CastCache>(choose(3)));
    if (choose(4) == 0) {
      inner.exp = choose(2) ? CastPolicy::keep : CastPolicy::lower;
      o.policies.set("exp", inner.exp);
    }
    if (choose(4) == 0) {
      inner.softmax = choose(2) ? CastPolicy::f32 : CastPolicy::lower;
      o.policies.set("softmax", inner.softmax);
    }
    for (int device : {0, 1}) {
      if (o.device && static_cast<int>(o.device->type) != device) continue;
      const auto i = static_cast<std::size_t>(device);
      if (o.enabled) inner.enter(device, o.dtype.value_or(inner.dtype[i]));
      else inner.enabled[i] = false;
    }
    const Autocast scope(o);
    inside(inner, depth);
  }

  // A new thread starts outside any region, and may apply the state of the thread that started it.
  void on_thread(const Model& model, int depth) {
    if (choose(50)) return;
    ++threads;
    const AutocastState state = amp::capture();
    Walk other(stream_ + 1000 + static_cast<std::uint64_t>(threads));
    std::thread([&] {
      other.try_nest(Model{}, 1);
      {
        const Autocast applied(state);
        other.try_nest(model, std::min(depth - 1, 3));
        other.verify(model);
      }
      other.verify(Model{});
    }).join();
    regions += other.regions;
    failures += other.failures;
  }

  void try_nest(const Model& model, int depth) {
    try {
      nest(model, depth);
    } catch (const Unwind&) {  // no further than its thread
    }
  }

  void inside(const Model& inner, int depth) {
    nest(inner, depth - 1);
    if (choose(10) == 0) {
      ++unwound;
      throw Unwind{static_cast<int>(choose(3))};
    }
  }

  void verify(const Model& m) {
    const AutocastState s = amp::capture();
    bool same = s.depth == m.depth && s.cache == m.cache && s.any() == (m.enabled[0] || m.enabled[1]);
    for (std::size_t d : {std::size_t{0}, std::size_t{1}})
      same = same && s.enabled[d] == m.enabled[d] && s.dtype[d] == m.dtype[d];
    if (choose(20) == 0) same = same && operators_agree(m);
    if (!same) ++failures;
  }
  bool operators_agree(const Model& m) {
    const auto expected = [&](CastPolicy p, Dtype came) {
      if (!m.enabled[0]) return came;
      return p == CastPolicy::f32 ? f32 : p == CastPolicy::lower ? m.dtype[0] : came;
    };
    const Dtype low = m.enabled[0] ? m.dtype[0] : bf16;
    const Tensor x = ones({2, 2}), y = x.to(low);
    return matmul(x, x).dtype() == expected(CastPolicy::lower, f32) && exp(y).dtype() == expected(m.exp, low) &&
           softmax(y, 0).dtype() == expected(m.softmax, low);
  }

  Philox random_;
  std::uint64_t stream_, draw_ = 0;
  std::vector<std::pair<AutocastState, Model>> kept_;
};

}  // namespace

TEST_CASE("A5 A6 A9 A10 A11: 100,000 random regions behave as a stack", "[amp][threads]") {
  MANTISSA_PRINT_SEED();
  Walk walk(1);
  while (walk.regions < 100000) walk.nest(Model{}, 7);
  CHECK(walk.failures == 0);
  CHECK(walk.threads > 50);
  CHECK(walk.unwound > 1000);
  CHECK(amp::capture() == AutocastState{});
}

TEST_CASE("A9: one recipe entered by itself restores each level", "[amp]") {
  const AutocastOptions recipe{.dtype = f16};
  const auto recurse = [&](auto& self, int depth) -> void {
    const AutocastState before = amp::capture();
    amp::autocast(recipe, [&] {
      CHECK(amp::capture().depth == before.depth + 1);
      if (depth > 0) self(self, depth - 1);
      const Autocast inner(amp::disabled);
    });
    CHECK(amp::capture() == before);
  };
  recurse(recurse, 10);
}
