#include "trainer.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

namespace samples {
namespace {

std::atomic<bool> stop_asked{false};

double usual_lr(const std::string& optimizer) { return optimizer == "sgd" ? 0.05 : optimizer == "adam" ? 1e-3 : 4e-3; }

std::string mebibytes(std::int64_t bytes) { return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20)); }

void print_json(const nlohmann::json& j) {
  fmt::print("{}\n", j.dump());
  std::fflush(stdout);
}

}  // namespace

bool parse(int argc, char** argv, const std::string& description, const std::vector<std::string>& models, Options& o, int* exit_code) {
  CLI::App app(description, "mnist");
  app.option_defaults()->always_capture_default()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // scripts add to defaults
  app.add_option("--data", o.data, "Folder with the data set; default: $MANTISSA_DATA, the XDG data folder, /usr/share/datasets");
  app.add_option("--dataset", o.dataset, "Data set")->check(CLI::IsMember({"mnist", "fashion", "synthetic"}));
  app.add_option("--model", o.model, "Model")->check(CLI::IsMember(models));
  app.add_option("--epochs", o.epochs, "Passes over the training images")->check(CLI::Range(std::int64_t{1}, std::int64_t{100000}));
  app.add_option("--batch", o.batch, "Images per step")->check(CLI::Range(std::int64_t{1}, std::int64_t{60000}));
  app.add_option("--lr", o.lr, "Learning rate (peak of the schedule); 0: the optimizer's usual")->check(CLI::NonNegativeNumber);
  app.add_option("--optimizer", o.optimizer, "Optimizer")->check(CLI::IsMember({"sgd", "adam", "adamw"}));
  app.add_option("--schedule", o.schedule, "Learning rate schedule")->check(CLI::IsMember({"onecycle", "constant"}));
  app.add_option("--amp", o.amp, "Mixed precision")->check(CLI::IsMember({"off", "bf16", "f16"}));
  app.add_option("--seed", o.seed, "Seed of initial weights, order and dropout");
  app.add_option("--threads", o.threads, "CPU threads; 0: all cores")->check(CLI::Range(0, 1024));
  app.add_option("--workers", o.workers, "Loader threads; 0: load in the training thread")->check(CLI::Range(0, 256));
  app.add_option("--limit", o.limit, "Use only the first images; 0: all")->check(CLI::NonNegativeNumber);
  app.add_option("--save", o.save, "Checkpoint file, written after each epoch and on Ctrl-C");
  app.add_option("--save-every", o.save_every, "Also write it every so many steps; 0: do not")->check(CLI::NonNegativeNumber);
  app.add_option("--resume", o.resume, "Go on from this checkpoint");
  app.add_flag("--json", o.json, "One JSON object per line instead of text");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& e) {
    *exit_code = app.exit(e);
    return false;
  } catch (const CLI::ParseError& e) {
    fmt::print(stderr, "error: {}; see --help\n", e.what());
    *exit_code = 2;
    return false;
  }
  if (o.save_every > 0 && o.save.empty()) {
    fmt::print(stderr, "error: --save-every needs --save FILE; see --help\n");
    *exit_code = 2;
    return false;
  }
  if (o.lr == 0) o.lr = usual_lr(o.optimizer);
  if (o.threads > 0) set_num_threads(o.threads);
  return true;
}

std::unique_ptr<optim::Optimizer> make_optimizer(const Options& o, const nn::NamedTensors& parameters) {
  if (o.optimizer == "sgd") return std::make_unique<optim::Sgd>(parameters, optim::SgdOptions{.lr = o.lr, .momentum = 0.9, .weight_decay = 5e-4, .nesterov = true});
  if (o.optimizer == "adam") return std::make_unique<optim::Adam>(parameters, optim::AdamOptions{.lr = o.lr});
  return std::make_unique<optim::AdamW>(parameters, optim::AdamWOptions{.lr = o.lr});
}

optim::Schedule make_schedule(const Options& o, std::int64_t steps) {
  if (o.schedule == "onecycle") return optim::OneCycleLR{.max_lr = o.lr, .total_steps = steps};
  return [](std::int64_t) { return 1.0; };
}

// No signal handler: it would run on the stack of whatever was interrupted, and a product inside oneDNN's generated
// code does not survive that (seen: a corrupted heap after Ctrl-C). Every thread made from here on blocks the
// signals, and one thread waits for them.
void catch_interrupts() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM}) {
    sigaddset(&signals, signal);
    std::signal(signal, SIG_DFL);  // a shell starts background programs with SIGINT ignored
  }
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals] {
    int signal = 0;
    while (sigwait(&signals, &signal) == 0) {
      if (stop_asked.exchange(true)) std::_Exit(128 + signal);  // the second time: at once
    }
  }).detach();
}
bool interrupted() { return stop_asked; }

void Report::start(const Options& o, const std::string& train_source, std::int64_t parameters) const {
  if (json_) {
    print_json({{"event", "start"}, {"data", train_source}, {"model", o.model}, {"parameters", parameters}, {"amp", o.amp},
                {"optimizer", o.optimizer}, {"lr", o.lr}, {"batch", o.batch}, {"epochs", o.epochs}, {"seed", o.seed}, {"threads", num_threads()}});
    return;
  }
  fmt::print("{}\n{} with {} parameters, {}, {} at {}, batch {}, {} threads\n", train_source, o.model, parameters,
             o.amp == "off" ? "f32" : o.amp + " mixed precision", o.optimizer, o.lr, o.batch, num_threads());
  std::fflush(stdout);
}

void Report::epoch(std::int64_t epoch, double loss, double accuracy, double seconds, double images_per_second) const {
  if (json_) {
    print_json({{"event", "epoch"}, {"epoch", epoch}, {"loss", loss}, {"test_accuracy", accuracy}, {"seconds", seconds}, {"images_per_second", images_per_second}});
    return;
  }
  fmt::print("epoch {}: loss {:.4f}, test accuracy {:.2f} %, {:.1f} s, {:.0f} images/s\n", epoch, loss, 100 * accuracy, seconds, images_per_second);
  std::fflush(stdout);
}

void Report::end(double accuracy, double seconds, double scale, bool scaled) const {
  const MemoryStats memory = memory_stats();
  if (json_) {
    nlohmann::json j = {{"event", "end"}, {"test_accuracy", accuracy}, {"seconds", seconds}, {"peak_bytes", memory.peak_allocated}, {"peak_reserved_bytes", memory.peak_reserved}};
    if (scaled) j["loss_scale"] = scale;
    print_json(j);
    return;
  }
  fmt::print("test accuracy {:.2f} % after {:.1f} s; peak memory {} in tensors, {} reserved{}\n", 100 * accuracy, seconds,
             mebibytes(memory.peak_allocated), mebibytes(memory.peak_reserved), scaled ? fmt::format("; loss scale {:.0f}", scale) : "");
}

void Report::note(const std::string& text) const {
  if (json_) print_json({{"event", "note"}, {"text", text}});
  else fmt::print("{}\n", text);
}

int run_guarded(int (*body)(int, char**), int argc, char** argv) {
  try {
    return body(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "error: {}\n", e.what());
    return 1;
  }
}

}  // namespace samples
