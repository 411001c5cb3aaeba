// Profiles: which operators ran, how often and nested in which; consistent sums; ranges that extend beyond the profile;
// threads; the trace file.
#include "core/profile.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "amp/autocast.h"
#include "amp/grad_scaler.h"
#include "autograd/backward.h"
#include "catch_compat.h"
#include "core/ops.h"
#include "core/random.h"
#include "data/pipeline.h"
#include "data/synthetic.h"
#include "io/trace_file.h"
#include "nn/functions.h"
#include "nn/linear.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "ranks.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;

namespace {

std::map<std::string, int> count(Profile& p) {
  std::map<std::string, int> n;
  for (const ProfileEvent& e : p.events()) ++n[concat(e.name, e.kind == ProfileKind::backward ? " (backward)" : "")];
  return n;
}

// The innermost range around event i.
const ProfileEvent* parent(const std::vector<ProfileEvent>& events, std::size_t i) {
  const ProfileEvent& e = events[i];
  for (std::size_t k = i; k-- > 0;) {
    if (events[k].thread == e.thread && events[k].depth == e.depth - 1) return &events[k];
  }
  return nullptr;
}

void check_consistent(Profile& p) {
  const std::vector<ProfileEvent>& events = p.events();
  std::map<const ProfileEvent*, std::int64_t> inside;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const ProfileEvent& e = events[i];
    REQUIRE(e.start >= 0);
    REQUIRE(e.duration >= e.self);
    REQUIRE(e.self >= 0);
    const ProfileEvent* around = parent(events, i);
    REQUIRE((around != nullptr) == (e.depth > 0));
    if (!around) continue;
    REQUIRE(around->start <= e.start);
    REQUIRE(e.start + e.duration <= around->start + around->duration);
    inside[around] += e.duration;
  }
  for (const ProfileEvent& e : events) REQUIRE(e.self == e.duration - inside[&e]);
}

}  // namespace

TEST_CASE("A profile lists the operators, rules and larger parts of a training step") {
  manual_seed(1);
  nn::Linear net(8, 4);
  optim::Adam adam(nn::parameters(net), {});
  amp::GradScaler scaler;
  const Tensor x = randn({16, 8}), target = randn({16, 4});
  Profile profile({.shapes = true});
  for (int step = 0; step < 3; ++step) {
    const ProfileRange range("step");
    const Tensor loss = amp::autocast(f16, [&] { return mse_loss(relu(net(x)), target); });
    backward(scaler.scale(loss));
    scaler.unscale_(adam);
    optim::clip_grad_norm_(nn::parameters(net), 1.0);
    scaler.step(adam);
    scaler.update();
    adam.zero_grad();
  }
  profile.stop();
  relu(x);  // after the end
  const std::map<std::string, int> n = count(profile);
  for (const char* name : {"step", "linear", "relu", "mse_loss", "backward", "linear (backward)", "relu (backward)",
                           "mse_loss (backward)", "scaler: unscale and check", "clip_grad_norm_", "optimizer step",
                           "scaler: update", "optimizer zero_grad"}) {
    INFO(name);
    REQUIRE(n.contains(name));
    CHECK(n.at(name) == 3);
  }
  check_consistent(profile);
  const auto& events = profile.events();
  for (std::size_t i = 0; i < events.size(); ++i) {
    const std::string name = events[i].name;
    if (name == "linear" && events[i].kind == ProfileKind::op)
      CHECK_THAT(events[i].shapes, Contains("f32[16, 8], f32[4, 8], f32[4]"));  // as given, before autocast
    if (events[i].kind == ProfileKind::backward) CHECK(std::string(parent(events, i)->name) == "backward");
    CHECK(events[i].device_duration == -1);
  }
}

TEST_CASE("Casts of autocast lie inside the operator that asked for them") {
  const Tensor a = randn({4, 4}), b = randn({4, 4});
  Profile profile;
  amp::autocast(bf16, [&] { return matmul(a, b); });
  const auto& events = profile.events();
  REQUIRE(events.size() >= 3);
  CHECK(std::string(events[0].name) == "matmul");
  CHECK(std::string(events[1].name) == "cast");
  CHECK(events[1].depth == 1);
}

TEST_CASE("An operator that throws ends its range, and one without a profile leaves no trace") {
  const Tensor a = randn({2, 3});
  (void)relu(a);
  Profile profile;
  CHECK_THROWS_AS(matmul(a, a), Error);
  (void)relu(a);
  const auto& events = profile.events();
  REQUIRE(events.size() == 2);
  CHECK(events[0].depth == 0);
  CHECK(events[1].depth == 0);
  CHECK(std::string(events[1].name) == "relu");
}

TEST_CASE("Ranges may begin before a profile and end after it") {
  auto older = std::make_unique<ProfileRange>("older");
  Profile profile;
  auto younger = std::make_unique<ProfileRange>("younger");
  older.reset();
  (void)relu(randn({4}));
  profile.stop();
  Profile second;
  younger.reset();  // of the first: not the end of anything here
  const std::string name = "made here";
  { const ProfileRange range(name + " and gone"); }
  CHECK_FALSE(count(profile).contains("older"));
  CHECK(count(profile).at("younger") == 1);
  CHECK(count(profile).at("relu") == 1);
  check_consistent(profile);
  CHECK(count(second) == std::map<std::string, int>{{"made here and gone", 1}});
}

TEST_CASE("There is one profile at a time, and the next begins empty") {
  {
    Profile profile;
    CHECK_THROWS_WITH(Profile(), Contains("stop() it first"));
    (void)relu(randn({4}));
  }
  Profile next;
  next.stop();
  next.stop();
  CHECK(next.events().empty());
  Profile third;  // next is stopped
}

TEST_CASE("All threads are recorded, each with its own nesting") {
  constexpr int threads = 4, calls = 200;
  Profile profile;
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([] {
      const Tensor x = ones({8});
      for (int i = 0; i < calls; ++i) {
        const ProfileRange range("outer");
        (void)exp(relu(x));
      }
    });
  }
  for (std::thread& t : all) t.join();
  const std::map<std::string, int> n = count(profile);
  CHECK(n.at("outer") == threads * calls);
  CHECK(n.at("relu") == threads * calls);
  CHECK(n.at("exp") == threads * calls);
  std::set<int> numbers;
  for (const ProfileEvent& e : profile.events()) numbers.insert(e.thread);
  CHECK(numbers == std::set<int>{0, 1, 2, 3});
  check_consistent(profile);
}

TEST_CASE("Profiles may begin and end while other threads work") {
  std::atomic<bool> done = false;
  std::thread worker([&] {
    const Tensor x = ones({8});
    while (!done) {
      const ProfileRange range("outer");
      (void)relu(x);
    }
  });
  for (int i = 0; i < 200; ++i) {
    Profile profile;
    (void)exp(ones({4}));
    profile.stop();
    CHECK(count(profile).at("exp") == 1);
    check_consistent(profile);
  }
  done = true;
  worker.join();
}

TEST_CASE("A loader's batches are ranges in its threads and in the one that takes them") {
  Profile profile;
  int batches = 0;
  for (auto [x, label] : data::Pipeline(data::synthetic_digits(64)).batch(16).threads(2)) ++batches;
  const auto n = count(profile);
  CHECK(n.at("loader: take a batch") >= batches);  // one may find the end
  CHECK(n.at("loader: make a batch") >= batches);
}

TEST_CASE("What processes exchange is a range, also in the background") {
  Profile profile;
  const std::string error = error_of_ranks(2, [](distributed::ProcessGroup& group) {
    const Tensor x = ones({8});
    group.all_reduce(x);
    group.start_all_reduce({x}).wait();
    group.barrier();
  });
  CHECK(error == "");
  const auto n = count(profile);
  CHECK(n.at("all_reduce") == 2);
  CHECK(n.at("all_reduce in the background") == 2);
  CHECK(n.at("barrier") == 2);
  check_consistent(profile);
}

TEST_CASE("What is beyond most_events is counted, not kept") {
  Profile profile({.most_events = 10});
  for (int i = 0; i < 25; ++i) (void)relu(ones({2}));
  profile.stop();
  CHECK(profile.events().size() == 10);
  CHECK(profile.dropped() >= 15);
  CHECK_THAT(profile.table(), Contains(concat(profile.dropped(), " ranges more were not kept")));
}

TEST_CASE("Memory: what a range allocates less what it gives back") {
  Profile profile({.memory = true});
  Tensor kept;
  {
    const ProfileRange range("keeps");
    kept = zeros({1 << 16});
    (void)exp(kept);
  }
  {
    const ProfileRange range("gives back");
    kept = {};
  }
  for (const ProfileEvent& e : profile.events()) {
    if (std::string(e.name) == "keeps") CHECK(e.bytes >= 4 << 16);
    if (std::string(e.name) == "gives back") CHECK(e.bytes <= -(4 << 16));
    if (std::string(e.name) == "exp") CHECK(e.bytes >= 4 << 16);
  }
  CHECK_THAT(profile.table(), Contains("memory, MiB"));
}

TEST_CASE("The table sums calls by name, and by shape where shapes are kept") {
  const Tensor a = ones({2}), b = ones({3});
  Profile profile({.shapes = true});
  for (int i = 0; i < 5; ++i) (void)relu(a);
  for (int i = 0; i < 2; ++i) (void)relu(b);
  (void)exp(a);
  profile.stop();
  const std::string table = profile.table(2, ProfileOrder::calls);
  INFO(table);
  const std::size_t first = table.find("relu  f32[2]"), second = table.find("relu  f32[3]");
  REQUIRE(first != std::string::npos);
  REQUIRE(second != std::string::npos);
  CHECK(first < second);
  CHECK_THAT(table, Contains("1 more"));
  CHECK_THAT(table, !Contains("exp"));
  CHECK_THAT(table, !Contains("GPU"));
  CHECK_THROWS_WITH(profile.table(0), Contains("at least one row"));
}

TEST_CASE("A trace is JSON whose boxes are the events, whatever names the program gave") {
  const std::string path = (std::filesystem::temp_directory_path() / "mantissa_profile_test.json").string();
  Profile profile({.shapes = true});
  { const ProfileRange range("a \"quoted\" \\ \n \x01 \xff name"); (void)relu(ones({2})); }
  io::save_trace(path, profile);
  std::ifstream file(path);
  const nlohmann::json trace = nlohmann::json::parse(file);
  int boxes = 0;
  for (const nlohmann::json& e : trace.at("traceEvents")) {
    if (e.at("ph") != "X") continue;
    const ProfileEvent& event = profile.events().at(static_cast<std::size_t>(boxes++));
    CHECK(e.at("dur").get<double>() == Approx(static_cast<double>(event.duration) / 1e3).margin(0.001));
    CHECK(e.at("ts").get<double>() == Approx(static_cast<double>(event.start) / 1e3).margin(0.001));
    if (event.kind == ProfileKind::op) CHECK(e.at("name").get<std::string>() == event.name);
    if (std::string(event.name) == "relu") CHECK(e.at("args").at("inputs") == "f32[2]");
  }
  CHECK(boxes == static_cast<int>(profile.events().size()));
  std::filesystem::remove(path);
  CHECK_THROWS_WITH(io::save_trace("/no/such/folder/trace.json", profile), Contains("/no/such/folder"));
}
