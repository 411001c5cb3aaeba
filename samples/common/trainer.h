// What every image sample shares: the command line, the training loop with mixed precision,
// checkpoints and resume, and the evaluation. A sample adds its models and its main().
// A model is anything of nn that maps images [N, C, H, W] to logits [N, classes].
#pragma once

#include <mantissa/mantissa.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace samples {

using namespace mantissa;

struct Options {
  std::string data, dataset = "fashion", model = "cnn", optimizer = "adamw", amp = "bf16", schedule = "onecycle";
  std::string save, resume;
  std::int64_t epochs = 3, batch = 128, limit = 0, save_every = 0;
  double lr = 0;  // 0: the optimizer's usual
  std::uint64_t seed = 1;
  int threads = 0, workers = 1;
  bool json = false;
};

// Fills in the options; returns false when the program should end with *exit_code (0 after --help, 2
// after a mistake, which has been explained in one line).
bool parse(int argc, char** argv, const std::string& description, const std::vector<std::string>& models, Options& o, int* exit_code);

std::unique_ptr<optim::Optimizer> make_optimizer(const Options& o, const nn::NamedTensors& parameters);
optim::Schedule make_schedule(const Options& o, std::int64_t steps);

// Ctrl-C and SIGTERM ask the loop to stop after the current step; a second one ends the program at once.
void catch_interrupts();
bool interrupted();

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// What is printed: lines for a person, or one JSON object per line.
class Report {
 public:
  explicit Report(bool json) : json_(json) {}
  void start(const Options& o, const std::string& train_source, std::int64_t parameters) const;
  void epoch(std::int64_t epoch, double loss, double accuracy, double seconds, double images_per_second) const;
  void end(double accuracy, double seconds, double scale, bool scaled) const;
  void note(const std::string& text) const;

 private:
  bool json_;
};

int run_guarded(int (*body)(int, char**), int argc, char** argv);  // errors become one line and exit code 1

template <class Net> double evaluate(Net& net, data::Loader& loader, Dtype amp_dtype) {
  const NoGrad no_grad;
  nn::eval(net);
  std::int64_t right = 0, seen = 0;
  for (auto [image, label] : loader) {
    const Tensor logits = amp::autocast(amp_dtype, [&] { return net(image); });
    right += cast(argmax(logits, 1) == label, i64).sum().template item<std::int64_t>();
    seen += label.numel();
  }
  nn::train(net);
  return seen > 0 ? static_cast<double>(right) / static_cast<double>(seen) : 0;
}

template <class Net> io::Checkpoint checkpoint(Net& net, const optim::Optimizer& optimizer, const amp::GradScaler& scaler,
                                               const data::Loader& loader, const Options& o) {
  io::Checkpoint c;
  c.put("model", nn::state_dict(net));
  c.put("optim", optimizer.state_dict());
  c.put("scaler", scaler.state_dict());
  c.put("rng", {{"state", io::to_tensor(rng_state())}});
  c.put("loader", {{"state", data::to_tensor(loader.state())}});
  c.set("model", o.model);
  return c;
}

template <class Net> void resume(const std::string& path, Net& net, optim::Optimizer& optimizer, amp::GradScaler& scaler,
                                 data::Loader& loader, const Options& o) {
  const io::Checkpoint c = io::load_checkpoint(path);
  check(c.text("model") == o.model, path, ": holds a model \"", c.text("model"), "\"; pass --model ", c.text("model"));
  // Everything is checked by the first calls that can fail; a checkpoint of another run changes nothing.
  loader.restore(data::loader_state_from_tensor(c.tensor("loader.state")));
  nn::load_state_dict(net, c.get("model"));
  optimizer.load_state_dict(c.get("optim"));
  if (!c.get("scaler").empty()) scaler.load_state_dict(c.get("scaler"));
  set_rng_state(io::rng_from_tensor(c.tensor("rng.state")));
}

// Trains `net` as the options say; returns the exit code.
template <class Net> int train(Net& net, const Options& o) {
  const Dtype amp_dtype = o.amp == "bf16" ? bf16 : o.amp == "f16" ? f16 : f32;
  data::Dataset train_set = data::load_dataset(o.dataset, data::Split::train, o.data);
  data::Dataset test_set = data::load_dataset(o.dataset, data::Split::test, o.data);
  if (o.limit > 0) train_set = train_set.first(std::min(o.limit, train_set.size()));
  test_set.mean = train_set.mean;
  test_set.std = train_set.std;

  data::Loader loader = data::Pipeline(train_set).shuffle(o.seed).batch(o.batch).drop_last(train_set.size() >= o.batch).threads(o.workers).loader();
  data::Loader test_loader = data::Pipeline(test_set).batch(1000).threads(o.workers).loader();
  const auto optimizer = make_optimizer(o, nn::named_parameters(net));
  amp::GradScaler scaler({.enabled = amp_dtype == f16});
  const std::int64_t steps = loader.batches() * o.epochs;
  optim::Scheduler scheduler(*optimizer, make_schedule(o, steps));

  const Report report(o.json);
  report.start(o, train_set.source, nn::count(net));
  if (!o.resume.empty()) resume(o.resume, net, *optimizer, scaler, loader, o);

  // A full disk must not end a run: it goes on, says so, and fails at the end if the last save did.
  bool saved = true;
  const auto save = [&] {
    if (o.save.empty()) return;
    try {
      io::save_checkpoint(o.save, checkpoint(net, *optimizer, scaler, loader, o));
      saved = true;
    } catch (const Error& e) {
      report.note(concat("warning: checkpoint not saved: ", e.what()));
      saved = false;
    }
  };

  const Stopwatch total;
  double accuracy = 0;
  if (loader.state().epoch >= o.epochs) accuracy = evaluate(net, test_loader, amp_dtype);  // resumed at its end
  std::int64_t step = loader.state().epoch * loader.batches() + loader.state().batch;
  for (std::int64_t epoch = loader.state().epoch; epoch < o.epochs; ++epoch) {
    const Stopwatch clock;
    io::Progress progress(concat("epoch ", epoch + 1, "/", o.epochs), loader.batches());
    Tensor loss_sum = zeros({});
    std::int64_t count = 0;
    data::Batch batch;
    while (loader.next(batch)) {
      scheduler.set_step(step);
      optimizer->zero_grad();
      const Tensor loss = amp::autocast(amp_dtype, [&] { return cross_entropy(net(batch.image), batch.label); });
      backward(scaler.scale(loss));
      scaler.step(*optimizer);
      scaler.update();
      ++step;
      ++count;
      loss_sum.add_(loss.detach());
      if (progress.due()) progress.update(loader.state().batch, loss.item());
      const bool stop = interrupted();
      if (stop || (o.save_every > 0 && step % o.save_every == 0)) save();
      if (stop) {
        progress.finish();
        if (o.save.empty()) report.note("interrupted; nothing saved (pass --save FILE)");
        else if (saved) report.note(concat("interrupted; go on with --resume ", o.save));
        return saved ? 130 : 1;
      }
    }
    progress.finish();
    const double seconds = clock.seconds();
    accuracy = evaluate(net, test_loader, amp_dtype);
    report.epoch(epoch + 1, loss_sum.item() / static_cast<double>(std::max<std::int64_t>(count, 1)), accuracy, seconds,
                 static_cast<double>(count * o.batch) / seconds);
    save();
  }
  report.end(accuracy, total.seconds(), scaler.get_scale(), scaler.is_enabled());
  return saved ? 0 : 1;
}

}  // namespace samples
