// Profiles on the device: operators have device times within the total; a captured step's replay is one range.
#include <map>

#include "mantissa.h"
#include "tests/catch_compat.h"

using namespace mantissa;

TEST_CASE("Ranges know how long the device was at them") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  const Tensor a = randn({256, 256}).to(cuda), b = randn({256, 256}).to(cuda);
  Profile profile({.memory = true});
  Tensor y;
  {
    const ProfileRange range("both");
    y = relu(matmul(a, b));
  }
  const float sum_of_y = sum(y).item();
  profile.stop();
  std::int64_t inside = 0, whole = -1;
  int items = 0;
  for (const ProfileEvent& e : profile.events()) {
    INFO(e.name);
    const std::string name = e.name;
    if (name == "both") whole = e.device_duration;
    if (name == "matmul" || name == "relu") {
      CHECK(e.device == cuda);
      CHECK(e.device_start >= 0);
      CHECK(e.device_duration >= e.device_self);
      CHECK(e.bytes >= 256 * 256 * 4);
      inside += e.device_duration;
    }
    items += name == "item" ? 1 : 0;
  }
  CHECK(whole == inside);  // it did nothing on the device itself
  CHECK(items == 1);
  CHECK_THAT(profile.table(), Catch::Matchers::Contains("GPU self, ms"));
  CHECK(std::isfinite(sum_of_y));
}

TEST_CASE("A captured step under a profile gives the same numbers, and its replays are ranges") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  const auto run = [](bool profiled) {
    manual_seed(5);
    nn::Linear net(8, 4);
    nn::to(net, cuda);
    optim::Sgd sgd(nn::parameters(net), {.lr = 0.1});
    auto step = jit::capture([&](const Tensor& x) {
      const Tensor loss = mean(square(net(x)));
      backward(loss);
      sgd.step();
      sgd.zero_grad();
      return loss;
    });
    std::optional<Profile> profile;
    if (profiled) profile.emplace();
    std::vector<float> losses;
    for (int i = 0; i < 6; ++i) losses.push_back(step(randn({16, 8}).to(cuda)).to(cpu).item());
    if (profile) {
      std::map<std::string, int> n;
      for (const ProfileEvent& e : profile->events()) {
        ++n[e.name];
        if (std::string(e.name) == "captured step: replay") CHECK(e.device_duration >= 0);
      }
      CHECK(n["captured step: record"] == 1);
      CHECK(n["captured step: replay"] == 4);
      CHECK(n["optimizer step"] == 2);  // run eagerly, and during capture
    }
    return losses;
  };
  CHECK(run(true) == run(false));
}

TEST_CASE("a captured step counts in every call, and so does its backward pass") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  const Tensor w = randn({8, 4}).to(cuda).requires_grad_(), x = randn({5, 8}).to(cuda);
  const double product = 2.0 * 5 * 8 * 4;
  auto whole = jit::capture([&](const Tensor& t) { backward(sum(matmul(t, w))); });
  auto forward = jit::capture([&](const Tensor& t) { return matmul(t, w); });
  for (int i = 0; i < 4; ++i) {
    CAPTURE(i);
    const FlopCounter counter;
    whole(x);
    CHECK(counter.count() == 2 * product);
    const Tensor y = forward(x);
    CHECK(counter.count() == 3 * product);
    backward(sum(y));
    CHECK(counter.count() == 4 * product);
  }
}
