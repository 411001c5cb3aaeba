// Balances a pole on a cart with proximal policy optimization (Schulman et al., 2017).
//   cartpole               until 20 new episodes last 475 of 500 steps on average
//   cartpole --help
#include "common/cartpole.h"

#include "common/run.h"

using namespace mantissa;
using samples::CartPole;

struct Policy {
  nn::Linear actor1{4, 64}, actor2{64, 64}, actor3{64, 2}, critic1{4, 64}, critic2{64, 64}, critic3{64, 1};
  MANTISSA_FIELDS(actor1, actor2, actor3, critic1, critic2, critic3)

  Tensor logits(const Tensor& obs) const { return actor3(tanh(actor2(tanh(actor1(obs))))).to(f32); }  // [N, 2]
  // [N]: estimate of the expected return
  Tensor value(const Tensor& obs) const { return critic3(tanh(critic2(tanh(critic1(obs))))).to(f32).squeeze(-1); }
};

struct Rollout {  // some steps of all environments, flattened to [N]
  Tensor obs, action, log_prob, advantage, returns;
};

// The environment itself runs on the CPU.
Rollout collect(const Policy& net, CartPole& env, std::int64_t steps, Device device) {
  constexpr double discount = 0.98, gae_lambda = 0.8;  // generalized advantage estimation (Schulman et al., 2016)
  const NoGrad no_grad;
  std::vector<Tensor> obs, action, log_prob, value, td_error, not_done;
  for (std::int64_t t = 0; t < steps; ++t) {
    obs.push_back(env.observation().to(device));
    const Tensor log_p = log_softmax(net.logits(obs.back()), -1),
                 gumbel = -log(-log(rand(log_p.sizes(), {.device = device})));
    action.push_back(argmax(log_p + gumbel, -1));  // samples the policy with the Gumbel-max trick
    log_prob.push_back(gather(log_p, 1, action.back().unsqueeze(1)).squeeze(1));
    value.push_back(net.value(obs.back()));
    const CartPole::Step step = env.step(action.back().to(cpu));
    td_error.push_back(1 + discount * step.standing.to(device) * net.value(step.seen.to(device)) - value.back());
    not_done.push_back(step.going_on.to(device));
  }
  std::vector<Tensor> advantage(obs.size());
  Tensor later = zeros_like(value[0]);
  for (std::size_t t = obs.size(); t-- > 0;)
    advantage[t] = later = td_error[t] + discount * gae_lambda * not_done[t] * later;
  return {cat(obs), cat(action), cat(log_prob), cat(advantage), cat(advantage) + cat(value)};
}

Tensor loss_of(const Policy& net, const Rollout& r) {
  constexpr double clip = 0.2;
  const Tensor log_p = log_softmax(net.logits(r.obs), -1);
  const Tensor ratio = exp(gather(log_p, 1, r.action.unsqueeze(1)).squeeze(1) - r.log_prob);
  const Tensor advantage = (r.advantage - r.advantage.mean()) / (mantissa::std(r.advantage) + 1e-8);
  return 0.5 * mse_loss(net.value(r.obs), r.returns) -
         minimum(ratio * advantage, clamp(ratio, 1 - clip, 1 + clip) * advantage).mean();
}

// Mean return of the greedy policy.
double mean_return(const Policy& net, std::int64_t episodes, const samples::Run& run) {
  const NoGrad no_grad;
  CartPole game(episodes);
  Tensor running = ones({episodes}), rewards = zeros({episodes});
  for (int t = 0; t < CartPole::longest; ++t) {
    rewards.add_(running);
    running.mul_(
        game.step(amp::autocast(run.dtype, [&] { return argmax(net.logits(game.observation().to(run.device)), -1); })
                      .to(cpu))
            .going_on);
  }
  return rewards.mean().item<double>();
}

int run(int argc, char** argv) {
  samples::Options o{.model = "cartpole", .schedule = "cosine", .epochs = 40, .batch = 8, .lr = 1e-3};
  std::int64_t horizon = 32, passes = 20;
  double target = 475;
  samples::configure(argc, argv,
                     {.description = "Learns to balance a pole; --batch is the number of carts.",
                      .flags = {{"--horizon", &horizon, "Steps of each cart between two updates"},
                                {"--passes", &passes, "Over what was seen in them"},
                                {"--target", &target, "Mean return of 20 new episodes at which it stops"}}},
                     o);
  check(o.batch * horizon > 1,
        "one step of one cart has no mean to compare it with: give a larger --batch or --horizon");
  Policy net;
  CartPole game(o.batch);
  samples::Run run(o, {.steps_per_epoch = 10, .items_per_step = o.batch * horizon, .items = "steps"});
  run.keep("model", net);
  run.keep("game", game.state);
  optim::Optimizer& optimizer = run.optimizer("optim", nn::named_parameters(net));
  run.evaluate([&] {
    const double reward = mean_return(net, 20, run);
    if (reward >= target) run.stop();
    return samples::Values{{"mean_return", reward}};
  });
  run.onnx(net, {game.observation()}, {.input_names = {"observation"}, .output_names = {"logits"}},
           [&](const Tensor& x) { return net.logits(x); });
  run.start(concat("CartPole-v1, ", o.batch, " carts"), nn::count(net));
  while (run.next()) {
    const Rollout rollout = amp::autocast(run.dtype, [&] { return collect(net, game, horizon, run.device); });
    Tensor loss;
    for (std::int64_t pass = 0; pass < passes; ++pass) {
      optimizer.zero_grad();
      loss = amp::autocast(run.dtype, [&] { return loss_of(net, rollout); });
      backward(run.scaler.scale(loss));
      run.scaler.step(optimizer, amp::ClipNorm{0.5});
      run.scaler.update();
    }
    run.done({{"loss", loss}});
  }
  return run.finish();
}

int main(int argc, char** argv) { return samples::run_guarded(run, argc, argv); }
