// Random training programs that are saved after a random step and resumed by other objects, bitwise against the same
// programs without a break.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mantissa.h"
#include "tests/catch_compat.h"
#include "tests/random_program.h"
#include "tests/temp_dir.h"

using namespace mantissa;
using test::Dice, test::Net, test::same_bits;

namespace {

// Of what a program is made.
struct Choice {
  bool halves, region, clips, accumulates, plateau, decays_too;
  Dtype dtype;
  int optimizer, schedule;
  optim::MemoryOptions memory;

  explicit Choice(std::uint64_t number) {
    Dice d(number);
    halves = d.chance(0.3), region = !halves && d.chance(0.6), clips = d.chance(0.3), accumulates = d.chance(0.3);
    plateau = d.chance(0.3), decays_too = d.chance(0.3);
    dtype = d.chance(0.5) ? f16 : bf16;
    optimizer = d.choose(11), schedule = d.choose(11);
    memory.master_weights = halves && d.chance(0.7);
    if (d.chance(0.25)) memory.state_dtype = bf16;
  }
};

Net make_net(const Choice& c, std::uint64_t seed) {
  manual_seed(seed);
  Net net;
  if (c.halves) nn::to(net, c.dtype);
  return net;
}
std::unique_ptr<optim::Optimizer> make_optimizer(const Choice& c, const std::vector<Tensor>& p) {
  using namespace optim;
  switch (c.optimizer) {
    case 0: return std::make_unique<SGD>(p, SgdOptions{.lr = 0.05, .momentum = 0.9, .nesterov = true}, c.memory);
    case 1: return std::make_unique<AdamW>(p, AdamWOptions{.lr = 0.02}, c.memory);
    case 2: return std::make_unique<ASGD>(p, ASGDOptions{.t0 = 3}, c.memory);
    case 3: return std::make_unique<Adadelta>(p, AdadeltaOptions{}, c.memory);
    case 4: return std::make_unique<Adagrad>(p, AdagradOptions{.lr_decay = 0.1}, c.memory);
    case 5: return std::make_unique<RMSprop>(p, RMSpropOptions{.momentum = 0.9, .centered = true}, c.memory);
    case 6: return std::make_unique<RAdam>(p, RAdamOptions{}, c.memory);
    case 7: return std::make_unique<Adamax>(p, AdamaxOptions{}, c.memory);
    case 8: return std::make_unique<LAMB>(p, LAMBOptions{}, c.memory);
    case 9: return std::make_unique<NAdam>(p, NAdamOptions{}, c.memory);
    default: return std::make_unique<Lion>(p, LionOptions{.lr = 0.01}, c.memory);
  }
}
optim::Schedule make_schedule(const Choice& c, bool has_momentum) {
  using namespace optim;
  switch (c.schedule) {
    case 0: return StepLR{.step_size = 3, .gamma = 0.5};
    case 1: return MultiStepLR{.milestones = {2, 5, 5, 9}, .gamma = 0.7};
    case 2: return ConstantLR{.factor = 0.3, .total_iters = 4};
    case 3: return LinearLR{.start_factor = 0.3, .total_iters = 6};
    case 4: return ExponentialLR{.gamma = 0.9};
    case 5: return PolynomialLR{.total_iters = 30, .power = 2};
    case 6: return CosineAnnealingLR{.t_max = 6};
    case 7: return CosineAnnealingWarmRestarts{.t_0 = 3};
    case 8: return OneCycleLR{.max_lr = 0.05, .total_steps = 40, .cycle_momentum = has_momentum};
    case 9: return CyclicLR{.base_lr = 0.001, .max_lr = 0.02, .step_size_up = 3, .cycle_momentum = has_momentum};
    default: return SWALR{.swa_lr = 0.01, .anneal_epochs = 5};
  }
}

class Training {
 public:
  Training(const Choice& c, std::uint64_t seed) : c_(c), net_(make_net(c, seed)) {
    schedule_.emplace(*opt_, make_schedule(c, opt_->has("beta1") || opt_->has("momentum")));
    if (c.decays_too) decay_.emplace(*opt_, optim::ExponentialLR{.gamma = 0.95});
    plateau_.emplace(*opt_, optim::PlateauOptions{.patience = 1});
  }

  void iterate(Dice& d) {
    const Tensor x = (randn({6, 4}) * (d.chance(0.1) ? 1e6 : 1)).to(net_.in.weight.dtype()), y = randn({6, 2});
    const auto loss_of = [&] { return mse_loss(net_(x).to(f32), y); };
    const Tensor loss = c_.region ? amp::autocast(c_.dtype, loss_of) : loss_of();
    backward(scaler_.scale(loss));
    is_between_ = !(c_.accumulates && d.chance(0.4));
    if (!is_between_) return;
    const amp::StepResult done = c_.clips ? scaler_.step(*opt_, amp::ClipNorm{0.5}) : scaler_.step(*opt_);
    scaler_.update();
    opt_->zero_grad();
    ema_.update(done);
    if (d.chance(0.3)) swa_.update(done);
    if (d.chance(0.8)) schedule_->step();
    if (decay_ && d.chance(0.8)) decay_->step();
    if (c_.plateau) plateau_->step(loss);
    if (d.chance(0.1)) opt_->set_lr(opt_->lr(0) * 0.9);
  }
  bool is_between() const { return is_between_; }  // iterations: there are no gradients to be saved

  io::Checkpoint state() {
    io::Checkpoint all;
    all.put("model", nn::state_dict(net_));
    all.put("optim", opt_->state_dict());
    all.put("scaler", scaler_.state_dict());
    all.put("schedule", schedule_->state_dict());
    if (decay_) all.put("decay", decay_->state_dict());
    all.put("plateau", plateau_->state_dict());
    all.put("ema", ema_.state_dict());
    all.put("swa", swa_.state_dict());
    all.put("rng", {{"state", io::to_tensor(rng_state())}});
    return all;
  }
  void load(const io::Checkpoint& all, bool optimizer_first) {
    nn::load_state_dict(net_, all.get("model"));
    if (optimizer_first) opt_->load_state_dict(all.get("optim"));
    scaler_.load_state_dict(all.get("scaler"));
    schedule_->load_state_dict(all.get("schedule"));
    if (decay_) decay_->load_state_dict(all.get("decay"));
    plateau_->load_state_dict(all.get("plateau"));
    if (!optimizer_first) opt_->load_state_dict(all.get("optim"));
    ema_.load_state_dict(all.get("ema"));
    swa_.load_state_dict(all.get("swa"));
    set_rng_state(io::rng_from_tensor(all.tensor("rng.state")));
  }

 private:
  Choice c_;
  Net net_;
  std::unique_ptr<optim::Optimizer> opt_ = make_optimizer(c_, nn::parameters(net_));
  amp::GradScaler scaler_{{.init_scale = 256, .growth_interval = 3, .allow_f16_gradients = true}};
  std::optional<optim::Scheduler> schedule_, decay_;
  std::optional<optim::ReduceLROnPlateau> plateau_;
  optim::Ema ema_{nn::parameters(net_), {.decay = 0.9}};
  optim::Swa swa_{nn::parameters(net_)};
  bool is_between_ = true;
};

// The first tensor that differs; "": none.
std::string difference(const io::Checkpoint& a, const io::Checkpoint& b) {
  for (const auto& [name, t] : a.tensors) {
    const std::vector<double> x = cast(t, f64).to_vector<double>(), y = cast(b.tensor(name), f64).to_vector<double>();
    if (!same_bits(x, y)) return name;
  }
  return "";
}

}  // namespace

TEST_CASE("programs that are saved and resumed compute the bits of those without a break") {
  const test::TempDir folder;
  constexpr int programs = 30, steps = 16;
  for (int i = 0; i < programs; ++i) {
    const std::uint64_t number = test::seed() + static_cast<std::uint64_t>(i);
    const Choice choice(number);
    INFO("MANTISSA_TEST_SEED=" << number << " begins with this program: optimizer " << choice.optimizer << ", schedule "
                               << choice.schedule);
    Dice dice(number), same_dice(number), other(number + 1);
    Training whole(choice, number);
    std::vector<io::Checkpoint> states;
    std::vector<int> breaks;  // steps after which there can be one
    for (int k = 0; k < steps; ++k) {
      whole.iterate(dice);
      io::Checkpoint copy = whole.state();
      for (auto& [name, t] : copy.tensors) t = t.detach().clone();
      states.push_back(std::move(copy));
      if (whole.is_between() && k + 1 < steps) breaks.push_back(k + 1);
    }
    REQUIRE(!breaks.empty());
    const int at = breaks[static_cast<std::size_t>(other.choose(static_cast<int>(breaks.size())))];
    {
      Training first(choice, number);
      for (int k = 0; k < at; ++k) first.iterate(same_dice);
      io::save_checkpoint(folder / "run.ckpt", first.state());
    }
    Training second(choice, number + 1000);
    do second.iterate(other);  // has run before
    while (!second.is_between());
    second.load(io::load_checkpoint(folder / "run.ckpt"), other.chance(0.5));
    for (int k = at; k < steps; ++k) {
      second.iterate(same_dice);
      INFO("saved after step " << at << ", step " << k + 1);
      REQUIRE(difference(states[static_cast<std::size_t>(k)], second.state()) == "");
    }
  }
}
