// Our scaler compared with the real torch.amp.GradScaler over 2,000 iterations, for several settings: the same scale,
// growth tracker and executed steps after each of them. The file is made by tests/golden/scaler.py.
#include <map>

#include "amp/grad_scaler.h"
#include "autograd/backward.h"
#include "core/ops.h"
#include "io/safetensors.h"
#include "optim/adam.h"
#include "tests/catch_compat.h"
#include "tests/testing.h"

using namespace mantissa;
using amp::GradScaler;

namespace {

using Tensors = std::map<std::string, Tensor>;

amp::GradScalerOptions options_of(const Tensor& t) {
  amp::GradScalerOptions o = amp::presets::torch();
  const std::vector<double> v = t.to_vector<double>();  // NaN: the default
  if (v[0] == v[0]) o.init_scale = v[0];
  if (v[1] == v[1]) o.growth_factor = v[1];
  if (v[2] == v[2]) o.backoff_factor = v[2];
  if (v[3] == v[3]) o.growth_interval = static_cast<std::int64_t>(v[3]);
  return o;
}
std::map<std::int64_t, double> events(const Tensors& tensors, const std::string& name) {
  std::map<std::int64_t, double> list;
  const auto found = tensors.find(name);
  if (found == tensors.end()) return list;
  const std::vector<double> v = found->second.to_vector<double>();
  for (std::size_t i = 0; i + 1 < v.size(); i += 2) list[static_cast<std::int64_t>(v[i])] = v[i + 1];
  return list;
}

void replay(const Tensors& tensors, const std::string& name) {
  const Tensor& verdict_table = tensors.at(name + "/verdicts");
  const std::vector<int> verdicts = verdict_table.to_vector<int>(),
                         steps = tensors.at(name + "/steps").to_vector<int>(),
                         trackers = tensors.at(name + "/trackers").to_vector<int>();
  const std::vector<double> scales = tensors.at(name + "/scales").to_vector<double>();
  const auto new_scales = events(tensors, name + "/new_scales"), intervals = events(tensors, name + "/intervals");
  const std::size_t optimizers = static_cast<std::size_t>(verdict_table.size(1));
  REQUIRE(scales.size() == 2000);

  GradScaler scaler(options_of(tensors.at(name + "/options")));
  std::vector<Tensor> parameters;
  std::vector<std::unique_ptr<optim::Adam>> list;
  for (std::size_t k = 0; k < optimizers; ++k) {
    parameters.push_back(ones({3}).requires_grad_());
    list.push_back(std::make_unique<optim::Adam>(optim::Parameters{parameters[k]}, optim::AdamOptions{.lr = 0}));
  }
  constexpr double spoilt[] = {0, HUGE_VAL, -HUGE_VAL, NAN};
  for (std::size_t t = 0; t < scales.size(); ++t) {
    INFO(name << ", iteration " << t);
    if (const auto at = intervals.find(static_cast<std::int64_t>(t)); at != intervals.end()) {
      scaler.set_growth_interval(static_cast<std::int64_t>(at->second));
    }
    for (std::size_t k = 0; k < optimizers; ++k) {
      list[k]->zero_grad();
      backward(scaler.scale(parameters[k].sum()));
      const int verdict = verdicts[t * optimizers + k];
      if (verdict != 0)
        parameters[k].grad().as_strided({}, {}, static_cast<std::int64_t>(t % 3)).fill_(spoilt[verdict]);
    }
    for (auto& optimizer : list) scaler.step(*optimizer);
    if (const auto at = new_scales.find(static_cast<std::int64_t>(t)); at != new_scales.end())
      scaler.update(at->second);
    else scaler.update();
    REQUIRE(scaler.get_scale() == scales[t]);
    const auto state = scaler.state_dict();
    REQUIRE(state.back().first == "_growth_tracker");
    REQUIRE(state.back().second.item<int>() == trackers[t]);
    for (std::size_t k = 0; k < optimizers; ++k) {
      const NamedTensors own = list[k]->state_dict();
      for (const auto& [key, value] : own) {
        if (key == "state.0.step") REQUIRE(value.item<int>() == steps[t * optimizers + k]);
      }
    }
  }
}

}  // namespace

TEST_CASE("G17 G19 G25 G26 G27 G28 G29 G34: scale, tracker and skips equal real PyTorch's over 2,000 iterations",
          "[scaler]") {
  Tensors tensors;
  std::map<std::string, bool> cases;
  for (auto& [name, t] :
       io::load_safetensors(MANTISSA_SOURCE_DIR "/tests/golden/scaler_trajectories.safetensors").tensors) {
    tensors.emplace(name, t);
    cases[name.substr(0, name.find('/'))] = true;
  }
  REQUIRE(cases.size() == 12);
  for (const auto& [name, unused] : cases) replay(tensors, name);
}
