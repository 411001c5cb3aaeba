// CartPole-v1 as in Gym (Barto, Sutton and Anderson, 1983): push a cart left or right so that its pole stays up. The
// reward is 1 per step; the episode ends when the pole leans over 12 degrees, the cart leaves the track, or after 500
// steps. Several carts at once: observations are one batch. Invariant: the state of all carts is one tensor, so a run
// can be saved and resumed in the middle of an episode.
#pragma once

#include <mantissa/mantissa.h>

#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

namespace samples {

class CartPole {
 public:
  static constexpr int observations = 4, actions = 2, longest = 500;

  explicit CartPole(std::int64_t carts) : state(mantissa::zeros({carts, observations + 1})) {
    for (std::int64_t i = 0; i < carts; ++i) reset(i);
  }

  mantissa::Tensor state;  // f32 [carts, 5]: position, velocity, angle, angular velocity, step count
  mantissa::Tensor observation() const { return slice(state, 1, 0, observations).clone(); }

  struct Step {
    mantissa::Tensor seen;      // [carts, 4]: the state after the push, before any reset
    mantissa::Tensor standing;  // f32 [carts]: 0 if the pole fell or the cart left the track, else 1
    mantissa::Tensor going_on;  // f32 [carts]: 0 if the episode ended, also by its length limit
  };
  // Pushes each cart left (0) or right (1). A cart whose episode ended is reset.
  Step step(const mantissa::Tensor& push) {  // i64 [carts]
    const std::int64_t carts = state.size(0);
    Step result{{}, mantissa::ones({carts}), mantissa::ones({carts})};
    for (std::int64_t i = 0; i < carts; ++i) {
      float* s = cart(i);
      move(s, push.data<std::int64_t>()[i] == 1 ? 10.0 : -10.0);
      const bool fell = std::abs(s[0]) > 2.4 || std::abs(s[2]) > 12 * std::numbers::pi / 180;
      if (fell) result.standing.data<float>()[i] = 0;
      if (fell || s[4] >= longest) result.going_on.data<float>()[i] = 0;
    }
    result.seen = observation();
    for (std::int64_t i = 0; i < carts; ++i) if (result.going_on.data<float>()[i] == 0) reset(i);
    return result;
  }

 private:
  float* cart(std::int64_t i) { return state.data<float>() + i * (observations + 1); }
  void reset(std::int64_t i) {
    const std::vector<float> draws = mantissa::rand({observations}).to_vector<float>();
    for (int k = 0; k < observations; ++k) cart(i)[k] = 0.1f * draws[static_cast<std::size_t>(k)] - 0.05f;
    cart(i)[observations] = 0;
  }
  static void move(float* s, double force) {  // Euler's method, 20 ms
    constexpr double gravity = 9.8, cart = 1, pole = 0.1, half = 0.5, dt = 0.02, total = cart + pole;
    const double cosine = std::cos(s[2]), sine = std::sin(s[2]);
    const double pushed = (force + pole * half * s[3] * s[3] * sine) / total;
    const double turning = (gravity * sine - cosine * pushed) / (half * (4.0 / 3 - pole * cosine * cosine / total));
    const double speeding = pushed - pole * half * turning * cosine / total;
    s[0] += static_cast<float>(dt * s[1]);
    s[1] += static_cast<float>(dt * speeding);
    s[2] += static_cast<float>(dt * s[3]);
    s[3] += static_cast<float>(dt * turning);
    s[4] += 1;
  }
};

}  // namespace samples
