// The environment of samples/cartpole against a trajectory of Gymnasium's CartPole-v1 (1.x), which starts at
// (0.03, -0.02, 0.01, 0.04) and falls in step 15, and the end of an episode by its length.
#include "samples/common/cartpole.h"

#include "testing.h"

using namespace mantissa;
using namespace mantissa::test;
using samples::CartPole;

TEST_CASE("A cart moves as in CartPole-v1") {
  manual_seed(1);
  CartPole game(2);
  game.state.copy_(tensor({{0.03, -0.02, 0.01, 0.04, 0}, {0, 0, 0, 0, 0}}));
  const int pushes[] = {1, 1, 0, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  const std::vector<double> sixth{0.05489087, -0.01987099, -0.02559974, 0.0371656},
      last{0.1921864, 1.742713, -0.2394238, -2.803203};
  for (int i = 0; i < 15; ++i) {
    CAPTURE(i);
    const CartPole::Step step = game.step(tensor({pushes[i], i % 2}));
    CHECK(step.standing.to_vector<int>() == std::vector{i < 14 ? 1 : 0, 1});
    CHECK(step.going_on.to_vector<int>() == step.standing.to_vector<int>());
    if (i == 5) CHECK(all_close(step.seen[0], from_data<double>(sixth, {4}), {1e-5, 1e-6}));
    if (i == 14) CHECK(all_close(step.seen[0], from_data<double>(last, {4}), {1e-5, 1e-6}));
  }
  const Tensor fresh = game.state[0];  // a new episode
  CHECK(abs(fresh).max().item() <= 0.05f);
  CHECK(fresh[4].item() == 0);
  CHECK(game.state[1][4].item() == 15);
}

TEST_CASE("An episode ends after 500 steps without a fall") {
  CartPole game(1);
  game.state.copy_(tensor({{0, 0, 0, 0, 499}}));
  const CartPole::Step step = game.step(tensor({1}));
  CHECK(step.standing.item() == 1);
  CHECK(step.going_on.item() == 0);
  CHECK(game.state[0][4].item() == 0);
}
