// Random training programs: a captured step among whatever else a program does between its calls, bitwise against the
// same program with the step as it is.
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mantissa.h"
#include "tests/catch_compat.h"
#include "tests/random_program.h"

using namespace mantissa;
using test::Dice, test::Net, test::same_bits;

namespace {

enum class Part { all, gradients, loss, outputs };  // of an iteration in the step; the rest follows outside of it
enum class Region { none, within, around };         // autocast, within or around the step

// Something computed, or without numbers something that happened.
struct Value {
  std::string what;
  std::vector<double> numbers;
  bool operator==(const Value& other) const { return what == other.what && same_bits(numbers, other.numbers); }
};
struct Found {
  std::vector<Value> values;
  std::int64_t replays = 0;
  bool failed = false;
};

class Program {
 public:
  Program(std::uint64_t number, bool captured)
      : dice_(number), captured_(captured), net_((manual_seed(number), Net())) {
    part_ = static_cast<Part>(dice_.choose(4));
    const bool halves = dice_.chance(0.3);
    dtype_ = dice_.chance(0.5) ? f16 : bf16;
    nn::to(net_, cuda);
    if (halves) nn::to(net_, dtype_);
    kept_ = nn::clone(nn::state_dict(net_));
    optimizer_ = make_optimizer({.master_weights = halves && dice_.chance(0.7)});
    kept_optimizer_ = nn::clone(optimizer_->state_dict());
    if (dice_.chance(0.5)) average_.emplace(nn::parameters(net_), optim::EmaOptions{.decay = 0.9});
    scaler_ = std::make_unique<amp::GradScaler>(amp::GradScalerOptions{.init_scale = 256, .growth_interval = 3});
    region_ = halves ? Region::none : static_cast<Region>(dice_.choose(3));
    clips_ = dice_.chance(0.3);
  }

  // Up to its end or an error, such as that of a loss scaler whose optimizer has no gradient.
  Found found() {
    bool failed = false;
    try {
      run();
    } catch (const Error&) {
      failed = true;
    }
    return {std::move(values_), step_.replays(), failed};
  }

 private:
  void note(const std::string& what, const Tensor& t) {
    values_.push_back({what, cast(t.detach().to(cpu), f64).to_vector<double>()});
  }

  std::unique_ptr<optim::Optimizer> make_optimizer(const optim::MemoryOptions& memory) {
    const auto p = nn::parameters(net_);
    switch (dice_.choose(4)) {
      case 0: return std::make_unique<optim::SGD>(p, optim::SgdOptions{.lr = 0.05, .momentum = 0.9}, memory);
      case 1: return std::make_unique<optim::AdamW>(p, optim::AdamWOptions{.lr = 0.02}, memory);
      case 2: return std::make_unique<optim::Lion>(p, optim::LionOptions{.lr = 0.01}, memory);
      default: return std::make_unique<optim::NAdam>(p, optim::NAdamOptions{.lr = 0.02}, memory);
    }
  }

  void run() {
    for (int i = 0; i < 14; ++i) {
      const std::int64_t rows = dice_.chance(0.85) ? 6 : 3;
      const Tensor x = (randn({rows, 4}) * (dice_.chance(0.08) ? 1e6 : 1)).to(cuda).to(net_.in.weight.dtype());
      const Tensor y = randn({rows, 2}).to(cuda);
      const bool captured = !dice_.chance(0.1) && captured_;
      const auto call = [&] { return captured ? step_(x, y) : step(x, y); };
      const Tensor result = region_ == Region::around ? amp::autocast(dtype_, call) : call();
      note("the result", result);
      after_step(result, y);
      const auto& [name, event] = events_[static_cast<std::size_t>(dice_.choose(static_cast<int>(events_.size())))];
      values_.push_back({name, {}});
      event();
      for (const auto& [weight, t] : nn::state_dict(net_)) note(weight, t);
    }
    for (const auto& [name, t] : optimizer_->state_dict()) note(name, t);
    for (std::size_t i = 0; average_ && i < average_->size(); ++i) note("the average", average_->average(i));
    note("the scale", scalar(scaler_->get_scale()));
  }
  Tensor step(const Tensor& x, const Tensor& y) {
    const auto outputs = [&] { return net_(x); };
    const Tensor out = (region_ == Region::within ? amp::autocast(dtype_, outputs) : outputs()).to(f32);
    if (part_ == Part::outputs) return out;
    const Tensor loss = mse_loss(out, y);
    if (part_ == Part::loss) return loss;
    backward(scaler_->scale(loss));
    if (part_ == Part::all) update();
    return loss;
  }
  void after_step(const Tensor& result, const Tensor& y) {
    if (part_ == Part::all) return;
    if (part_ != Part::gradients) backward(scaler_->scale(part_ == Part::outputs ? mse_loss(result, y) : result));
    if (dice_.chance(0.8)) update();  // or gradients accumulate
  }
  void update() {
    const amp::StepResult done = clips_ ? scaler_->step(*optimizer_, amp::ClipNorm{0.5}) : scaler_->step(*optimizer_);
    if (average_) average_->update(done);
    scaler_->update();
    optimizer_->zero_grad();
  }

  void evaluate(Dtype dtype) {
    const NoGrad no_grad;
    const Tensor x = randn({5, 4}).to(cuda).to(net_.in.weight.dtype());
    const bool captured = dice_.chance(0.5) && captured_;
    note("an evaluation", amp::autocast(dtype, [&] { return captured ? look_(x) : net_(x); }));
  }
  Tensor some_weight() {
    const auto p = nn::parameters(net_);
    return p[static_cast<std::size_t>(dice_.choose(static_cast<int>(p.size())))].detach();
  }

  struct Event {
    std::string name;
    std::function<void()> happens;
  };
  const std::vector<Event> events_{
      {"nothing", [] {}},
      {"evaluated in f16", [this] { evaluate(f16); }},
      {"evaluated in bf16", [this] { evaluate(bf16); }},
      {"evaluated as it is", [this] { nn::eval(net_), evaluate(dtype_), nn::train(net_); }},
      {"evaluated with the average",
       [this] {
         if (!average_) return;
         const auto scope = average_->applied();
         evaluate(f16);
       }},
      {"another rate", [this] { optimizer_->set_lr(0.001 * (1 + dice_.choose(20))); }},
      {"a smaller weight", [this] { some_weight().mul_(0.5); }},
      {"a clamped weight", [this] { some_weight().clamp_(-0.2, 0.2); }},
      {"weights kept", [this] { kept_ = nn::clone(nn::state_dict(net_)); }},
      {"weights loaded", [this] { nn::load_state_dict(net_, kept_); }},
      {"optimizer kept", [this] { kept_optimizer_ = nn::clone(optimizer_->state_dict()); }},
      {"optimizer loaded", [this] { optimizer_->load_state_dict(kept_optimizer_); }},
      {"another seed", [this] { manual_seed(static_cast<std::uint64_t>(dice_.choose(1000))); }},
      {"random numbers kept", [this] { random_ = rng_state(); }},
      {"random numbers restored", [this] { if (random_) set_rng_state(*random_); }},
      {"nn::eval", [this] { nn::eval(net_); }},
      {"nn::train", [this] { nn::train(net_); }},
      // Within the step the dtype would be a value of the host, which is not noticed.
      {"another dtype", [this] { if (region_ == Region::around) dtype_ = dtype_ == f16 ? bf16 : f16; }},
      {"frozen, or no longer", [this] { nn::requires_grad_(net_.in, !net_.in.weight.requires_grad()); }},
      {"moved and back", [this] { nn::to(net_, cpu), nn::to(net_, cuda); }},
      {"gradients zero", [this] { optimizer_->zero_grad(false); }},
      {"no gradients", [this] { optimizer_->zero_grad(); }},
      {"gradients of something else",
       [this] { backward(scaler_->scale(sum(net_(randn({2, 4}).to(cuda).to(net_.in.weight.dtype()))))); }},
      // Without the gradients before, which have another scale: the step as it is finds that out.
      {"another scale", [this] { optimizer_->zero_grad(), scaler_->update(64.0 * (1 + dice_.choose(4))); }},
      {"another rule of the scale",
       [this] {
         scaler_->set_growth_factor(1.5 + dice_.choose(3));
         scaler_->set_backoff_factor(0.25 * (1 + dice_.choose(3)));
         scaler_->set_growth_interval(1 + dice_.choose(4));
       }},
      {"scaler kept", [this] { kept_scaler_ = scaler_->state_dict(); }},
      {"scaler loaded",
       [this] {
         optimizer_->zero_grad();
         if (!kept_scaler_.empty()) scaler_->load_state_dict(kept_scaler_);
       }},
      {"memory given back", [] { empty_cache(cuda); }},
      {"synchronised", [] { synchronize(cuda); }},
  };

  Dice dice_;
  bool captured_, clips_ = false;
  Region region_ = Region::none;
  Part part_ = Part::all;
  Dtype dtype_ = f16;
  Net net_;
  NamedTensors kept_, kept_optimizer_, kept_scaler_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<amp::GradScaler> scaler_;
  std::optional<optim::Ema> average_;
  std::optional<RngState> random_;
  std::vector<Value> values_;
  jit::Captured<std::function<Tensor(Tensor, Tensor)>> step_ =
      jit::capture(std::function<Tensor(Tensor, Tensor)>([this](Tensor x, Tensor y) { return step(x, y); }));
  jit::Captured<std::function<Tensor(Tensor)>> look_ =
      jit::capture(std::function<Tensor(Tensor)>([this](Tensor x) { return net_(x); }));
};

// The first thing that differs, and what happened before it.
std::string difference(const Found& a, const Found& b) {
  std::string before = "after";
  for (std::size_t i = 0; i < std::min(a.values.size(), b.values.size()); ++i) {
    if (!(a.values[i] == b.values[i])) return before + ": " + a.values[i].what;
    if (a.values[i].numbers.empty()) before += ", " + a.values[i].what;
  }
  return a.failed == b.failed && a.values.size() == b.values.size() ? "" : before + ": an error of one of them";
}

}  // namespace

TEST_CASE("programs with a captured step compute the bits of the same programs without") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  constexpr int programs = 16;
  int whole = 0;
  std::int64_t replays = 0;
  for (int i = 0; i < programs; ++i) {
    const std::uint64_t number = test::seed() + static_cast<std::uint64_t>(i);
    INFO("MANTISSA_TEST_SEED=" << number << " begins with this program");
    const Found eager = Program(number, false).found(), captured = Program(number, true).found();
    CHECK(difference(eager, captured) == "");
    whole += !eager.failed;
    replays += captured.replays;
  }
  CHECK(whole > programs / 2);
  CHECK(replays > programs);
}
