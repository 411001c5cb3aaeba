// Out of memory at every single allocation in turn: an error that can be caught, no partial effects, and a process that
// continues. (oneDNN's behaviour when its own allocations fail is out of scope: everything is called once before.)
#include <cstdlib>
#include <functional>
#include <new>

#include "amp/autocast.h"
#include "amp/grad_scaler.h"
#include "autograd/backward.h"
#include "core/ops.h"
#include "io/checkpoint.h"
#include "nn/functions.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "tests/temp_dir.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
namespace {
thread_local int left = -1;  // allocations until one fails; none does below 0
}  // namespace
void* operator new(std::size_t bytes) {
  if (left >= 0 && left-- == 0) throw std::bad_alloc();
  if (void* p = std::malloc(bytes > 0 ? bytes : 1)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace {

// Calls f with the n-th allocation failing, followed by `after`, for every n. Returns the number of allocations.
int with_every_failure(const std::function<void()>& f, const std::function<void()>& after) {
  for (int n = 0;; ++n) {
    INFO("allocation " << n);
    bool failed = false;
    left = n;
    try {
      f();
    } catch (const std::bad_alloc&) {
      failed = true;
    } catch (const Error& e) {
      left = -1;
      FAIL("another error: " << e.what());
    }
    const bool reached = left < 0;
    left = -1;
    after();
    CHECK((reached || !failed));
    if (!reached) return n;
  }
}

struct Net {
  nn::Linear a{6, 8};
  nn::LayerNorm norm{Dims{8}};
  nn::Linear b{8, 4};
  MANTISSA_FIELDS(a, norm, b)
  Tensor operator()(const Tensor& x) const { return b(relu(norm(a(x)))); }
};

}  // namespace

TEST_CASE("memory that runs out in a training step is an error, and the next step works") {
  manual_seed(1);
  Net net;
  optim::Adam opt(nn::parameters(net));
  const Tensor x = randn({5, 6}), y = randint(0, 4, {5});
  for (const bool half : {false, true}) {
    INFO((half ? "bf16, scaled" : "f32"));
    double loss = 0;
    const auto step = [&] {
      amp::GradScaler scaler({.enabled = half});
      opt.zero_grad();
      const auto forward = [&] { return cross_entropy(net(x), y); };
      const Tensor l = half ? amp::autocast(bf16, forward) : forward();
      backward(scaler.scale(l));
      scaler.unscale_(opt);
      optim::clip_grad_norm_(nn::parameters(net), 1);
      scaler.step(opt);
      scaler.update();
      loss = l.item();
    };
    step();
    CHECK(with_every_failure(step, [&] {
            loss = NAN;
            step();
            CHECK(std::isfinite(loss));
          }) > 5);
  }
}

TEST_CASE("memory that runs out while saving or loading leaves a complete checkpoint and the values as they were") {
  const TempDir dir;
  const std::string path = dir / "run.ckpt";
  const Net one, two;
  const auto save = [&](const Net& net) {
    io::Checkpoint c;
    c.put("model", nn::state_dict(net));
    io::save_checkpoint(path, c);
  };
  const auto values = [](const NamedTensors& state) {
    std::vector<float> all;
    for (const auto& [name, t] : state) {
      const auto v = t.to_vector<float>();
      all.insert(all.end(), v.begin(), v.end());
    }
    return all;
  };
  const auto first = values(nn::state_dict(one)), second = values(nn::state_dict(two));
  Net net;
  save(one);
  CHECK(with_every_failure([&] { save(two); },
                           [&] {
                             nn::load_state_dict(net, io::load_checkpoint(path).get("model"));
                             const auto now = values(nn::state_dict(net));
                             CHECK((now == first || now == second));
                             CHECK(dir.files() == 1);
                             save(one);
                           }) > 50);
  nn::save(two, path);
  nn::load_state_dict(net, nn::state_dict(one));
  CHECK(with_every_failure([&] { nn::load(net, path); },
                           [&] {
                             const auto now = values(nn::state_dict(net));
                             CHECK((now == first || now == second));
                             nn::load_state_dict(net, nn::state_dict(one));
                           }) > 20);
}
#endif
