// One training run: how long it lasts, what it saves and resumes, what it prints. The loop stays in the sample:
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
// Invariant: a run that is stopped, or killed, and resumed gives the same bits as an undisturbed one, provided that
// everything that lives from step to step is kept, and that it ends by epochs and not by --minutes.
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

using NamedTensors = io::NamedTensors;
using Values = std::vector<std::pair<std::string, double>>;  // what was measured; names ending in accuracy print in %
using Losses = std::vector<std::pair<std::string, Tensor>>;

struct Plan {
  std::int64_t steps_per_epoch = 1;
  std::int64_t items_per_step = 1;  // for the rate
  std::string items = "images";
};

// The options' device. Of several processes on a machine each has a GPU of its own, where "cuda" names none.
Device device_of(const Options& o);
std::unique_ptr<optim::Optimizer> make_optimizer(const Options& o, const nn::NamedTensors& parameters);
// `lr`: the peak, where a schedule has its own and not the optimizer's.
optim::Schedule make_schedule(const Options& o, std::int64_t steps, double lr);

class Run {
 public:
  Run(const Options& o, const Plan& plan);
  Run(const Run&) = delete;

  const Dtype dtype;        // of autocast; f32 with --amp off
  const Device device;      // what is kept moves there; so must what the model sees
  distributed::ProcessGroup& world;  // the processes that train together: mantissa_run starts several
  amp::GradScaler scaler;   // enabled with --amp f16

  // --- before start(): what lives from step to step. The objects must outlive the run ---
  void keep(const std::string& area, nn::ModuleRef net);  // moves it to the device
  void keep(const std::string& area, data::Loader& loader);
  void keep(const std::string& area, const Tensor& tensor);  // its elements
  // Trains `net`, which is kept, together with the other processes (nn/data_parallel.h): all print and save through the
  // first one, losses and what evaluate() measures are means over all, and all stop at the same step. A sample in which
  // nothing is parallel refuses to run in several processes.
  void parallel(nn::ModuleRef net) { parallel_.push_back(std::make_unique<nn::DataParallel>(net)); }
  // An optimizer as the options say, kept, with the rate of the options' schedule at each step.
  optim::Optimizer& optimizer(const std::string& area, const nn::NamedTensors& parameters);
  optim::Optimizer& optimizer(const std::string& area, std::unique_ptr<optim::Optimizer> made);  // any other, likewise
  void evaluate(std::function<Values()> measure) { measure_ = std::move(measure); }  // called after each epoch

  // What --onnx saves at the end: `net`, or `forward` of it, called with an example whose first dimension is a batch.
  template <class Net, class F> void onnx(Net& net, const Tensor& example, nn::OnnxOptions options, F forward) {
    options.dynamic.insert(options.dynamic.begin(), nn::OnnxDynamicAxis{"batch"});
    save_onnx_ = [this, &net, example, options, forward] {
      nn::eval(net);
      nn::save_onnx(net, o_.onnx, {example.to(device)}, options, forward);
    };
  }

  void start(const std::string& source, std::int64_t parameters);  // prints what is trained, and resumes

  // --- the loop ---
  bool next();                      // whether there is a step to do; ends the one before
  void done(const Losses& losses);  // what the step gave; the first one is shown
  void stop() { stopped_ = true; }  // the goal is reached: no further step
  std::int64_t step() const { return step_; }  // counted from 0
  std::uint64_t seed() const { return seed_; } // of the run, also after a resumption with another --seed

  int finish();  // prints the last measurement; returns the exit code
  void note(const std::string& text) const;
  void save_onnx() const;  // by finish(): what onnx() was told of, with --onnx
  void finish_profile();   // of --profile

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
  double before_ = 0;  // seconds of the runs this one goes on from
  double agreed_seconds_ = 0;  // of the slowest of several processes
  bool stop_agreed_ = false;
  bool replaces_ = false;  // --save names a checkpoint of another run, which has not been replaced yet
  Stopwatch clock_, epoch_clock_;
  std::int64_t epoch_steps_ = 0;  // done since the epoch began or was resumed
  Losses sums_;
  std::optional<io::Progress> progress_;
  std::optional<io::SummaryWriter> curves_;
  std::optional<Values> measured_;
  std::int64_t steps_here_ = 0;  // begun by this process
  std::optional<Profile> profile_;
};

}  // namespace samples
