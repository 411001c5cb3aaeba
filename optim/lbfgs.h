// LBFGS: the limited-memory quasi-Newton method, optionally with a strong Wolfe line search (Nocedal and Wright,
// "Numerical optimization", chapters 3 and 7). Same results as torch.optim.LBFGS. It evaluates the loss several times
// per step and makes decisions on the host, so it takes a closure and reads the device:
//
//   optim::LBFGS opt(nn::parameters(net), {.line_search_fn = optim::LineSearch::strong_wolfe});
//   Tensor loss = opt.step([&] { opt.zero_grad(); Tensor l = loss_of(net); backward(l); return l; });
//
// With a GradScaler the closure itself unscales and updates, and never calls scaler.step:
//
//   [&] {
//     opt.zero_grad(); Tensor l = ...; backward(scaler.scale(l));
//     scaler.unscale_(opt); scaler.update(); return l;
//   }
//
// A gradient or loss that is not finite changes nothing at the first evaluation, shortens a line search, and otherwise
// ends the step at the last finite evaluation (PyTorch would continue with NaN).
#pragma once

#include <functional>

#include "optim/optimizer.h"

namespace mantissa::optim {

enum class LineSearch { none, strong_wolfe };
struct LBFGSOptions {
  double lr = 1;
  int max_iter = 20;               // iterations per step
  std::optional<int> max_eval{};   // evaluations per step; default max_iter * 5 / 4
  double tolerance_grad = 1e-7;    // ends a step: bound on the largest |gradient|
  double tolerance_change = 1e-9;  // ends a step: bound on the change of the loss, or of the largest parameter change
  int history_size = 100;          // pairs of vectors kept, each as large as all parameters
  LineSearch line_search_fn = LineSearch::none;
  bool maximize = false;
};

class LBFGS final : public Optimizer {
 public:
  explicit LBFGS(Parameters parameters, const LBFGSOptions& options = {});  // one group

  // Returns the loss of the first evaluation. The closure zeroes the gradients, calls backward and returns the loss.
  Tensor step(const std::function<Tensor()>& closure);
  void step_unless(const Tensor& skip) override;  // always an error: a closure is required

  int iterations() const { return n_iter_; }  // over all steps
  int evaluations() const { return func_evals_; }

  NamedTensors state_dict() const override;
  void load_state_dict(const NamedTensors& state) override;

 private:
  struct Point {  // an evaluation
    double loss;
    Tensor gradient;  // of all parameters, flat
    double slope = 0;  // directional derivative along the search direction
  };
  struct Search;

  Point evaluate(const std::function<Tensor()>& closure, Tensor* loss = nullptr);
  Point evaluate_at(const std::function<Tensor()>& closure, const Tensor& x, double t);
  Tensor flat_parameters() const;
  void set_parameters(const Tensor& flat);
  void move(double t);
  void next_direction(const Point& now);
  Point strong_wolfe(const std::function<Tensor()>& closure, const Point& start, double& t, int max_evaluations);
  bool small(const Tensor& x, double limit) const;

  int n_iter_ = 0, func_evals_ = 0;
  double t_ = 0, h_diag_ = 1, prev_loss_ = 0;
  Tensor d_, prev_gradient_;               // flat; zeros before the first step
  std::vector<Tensor> old_dirs_, old_stps_;  // the last differences of gradients and of parameters
  std::vector<double> ro_;
  LBFGSOptions options_;
};

}  // namespace mantissa::optim
