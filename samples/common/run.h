// A training run: its duration, checkpoints and resuming, and its output. The loop stays in the sample:
//
//   samples::Run run(o, {.steps_per_epoch = 500, .items_per_step = o.batch, .items = "images"});
//   run.keep("model", net);
//   optim::Optimizer& optimizer = run.optimizer("optim", nn::named_parameters(net));
//   run.evaluate([&] { return samples::Values{{"test_accuracy", accuracy(net)}}; });
//   run.start("fashion-mnist: 60000 images", nn::count(net));
//   while (run.next()) {
//     optimizer.zero_grad();
//     const Tensor loss = amp::autocast(run.dtype, [&] { return net.loss(batch(run.step())); });
//     backward(run.scaler.scale(loss));
//     run.scaler.step(optimizer);
//     run.scaler.update();
//     run.done({{"loss", loss}});
//   }
//   return run.finish();
//
// Invariant: a run that is stopped, or killed, and resumed gives the same bits as an uninterrupted one, provided that
// all state that persists between steps is registered with keep(), and that it ends by epochs and not by --minutes.
#pragma once

#include <mantissa/mantissa.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "options.h"

namespace samples {

using namespace mantissa;

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

using Values = std::vector<std::pair<std::string, double>>;  // measurements; names ending in accuracy are printed in %
using Losses = std::vector<std::pair<std::string, Tensor>>;

struct Plan {
  std::int64_t steps_per_epoch = 1;
  std::int64_t items_per_step = 1;  // for the displayed rate
  std::string items = "images";
};

// The options' device. With several processes on a machine, "cuda" without an index selects a GPU per process.
Device device_of(const Options& o);
std::unique_ptr<optim::Optimizer> make_optimizer(const Options& o, const NamedTensors& parameters);
// `lr`: the peak, for schedules that define their own instead of using the optimizer's.
optim::Schedule make_schedule(const Options& o, std::int64_t steps, double lr);

class Run {
 public:
  Run(const Options& o, const Plan& plan);
  Run(const Run&) = delete;

  const Dtype dtype;        // of autocast; f32 with --amp off
  const Device device;      // kept objects are moved there; inputs must be on it, too
  distributed::ProcessGroup& world;  // processes that train together, started by mantissa_run
  amp::GradScaler scaler;   // enabled with --amp f16

  // --- before start(): state that persists between steps. The objects must outlive the run ---
  void keep(const std::string& area, nn::ModuleRef net);  // moves it to the device
  void keep(const std::string& area, data::Loader& loader);
  void keep(const std::string& area, const Tensor& tensor);  // its elements
  void keep(const std::string& area, optim::WeightAverage& average);  // made after its net was kept
  // Trains `net`, which must be kept, data-parallel with the other processes (nn/data_parallel.h): only the first one
  // prints and saves, losses and the results of evaluate() are averaged over all, and all stop at the same step. A
  // sample without a parallel net throws when run in several processes.
  void parallel(nn::ModuleRef net) { parallel_.push_back(std::make_unique<nn::DataParallel>(net)); }
  // Creates the optimizer chosen by the options and keeps it; its learning rate follows the options' schedule.
  optim::Optimizer& optimizer(const std::string& area, const NamedTensors& parameters);
  optim::Optimizer& optimizer(const std::string& area, std::unique_ptr<optim::Optimizer> made);  // any other, likewise
  void evaluate(std::function<Values()> measure) { measure_ = std::move(measure); }  // called after each epoch

  // The --onnx export at the end: `net`, or `forward` of it, called with examples whose dimension 0 is the batch.
  template <class Net, class F>
  void onnx(Net& net, const std::vector<Tensor>& examples, nn::OnnxOptions options, F forward) {
    options.dynamic.insert(options.dynamic.begin(), nn::OnnxDynamicAxis{"batch"});
    save_onnx_ = [this, &net, examples, options, forward] {
      std::vector<Tensor> inputs;
      for (const Tensor& x : examples) inputs.push_back(x.to(device));
      nn::eval(net);
      nn::save_onnx(net, o_.onnx, inputs, options, forward);
    };
  }

  void start(const std::string& source, std::int64_t parameters);  // prints the setup, and resumes

  // --- the loop ---
  bool next();                      // whether there is another step; completes the previous one
  void done(const Losses& losses);  // the step's losses; the first one is displayed
  void stop() { stopped_ = true; }  // the goal is reached: no further steps
  std::int64_t step() const { return step_; }  // counted from 0
  std::uint64_t seed() const { return seed_; } // kept when resuming with another --seed

  int finish();  // prints the last measurement; returns the exit code
  void note(const std::string& text) const;
  void save_onnx() const;  // called by finish(): exports what onnx() registered
  void finish_profile();   // for --profile

 private:
  struct Part {
    std::string area;
    std::function<NamedTensors()> save;
    std::function<void(const NamedTensors&)> load;
  };
  double elapsed() const { return world.size() > 1 ? agreed_seconds_ : before_ + clock_.seconds(); }
  bool over() const;
  void begin_epoch();
  void end_epoch();
  void measure();
  void agree();
  void save();
  void resume(const std::string& path);
  void set_rates();
  void follow_profile();
  void log(const char* group, const Values& values);
  void print(const char* event, const std::string& text, const Values& values) const;

  const Options o_;
  const Plan plan_;
  std::vector<Part> parts_;
  std::vector<std::unique_ptr<nn::DataParallel>> parallel_;
  std::vector<std::unique_ptr<optim::Optimizer>> optimizers_;
  std::vector<optim::Scheduler> schedulers_;
  std::function<Values()> measure_;
  std::function<void()> save_onnx_;

  std::int64_t step_ = 0;
  std::uint64_t seed_;
  bool inside_ = false, stopped_ = false, interrupted_ = false, saved_ = true;
  double before_ = 0;  // seconds of earlier runs, when resumed
  double agreed_seconds_ = 0;  // maximum over all processes
  bool stop_agreed_ = false;
  bool replaces_ = false;  // --save names another run's checkpoint, not replaced yet
  Stopwatch clock_, epoch_clock_;
  std::int64_t epoch_steps_ = 0;  // since the epoch began or was resumed
  Losses sums_;
  std::optional<io::Progress> progress_;
  std::optional<io::SummaryWriter> curves_;
  std::optional<Values> measured_;
  std::int64_t steps_here_ = 0;  // started by this process
  std::optional<Profile> profile_;
};

}  // namespace samples
