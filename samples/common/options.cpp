#include "options.h"

#include <fmt/format.h>
#include <mantissa/core/parallel.h>
#include <mantissa/core/random.h>
#include <mantissa/core/tf32.h>
#include <mantissa/io/stop.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace samples {
namespace {

double usual_lr(const std::string& optimizer) { return optimizer == "sgd" ? 0.05 : optimizer == "adam" ? 1e-3 : 4e-3; }

// CLI::NonNegativeNumber's message has the largest double in it, digit by digit.
const CLI::Validator not_negative(
    [](const std::string& text) -> std::string {
      double value = 0;
      const char* const end = text.data() + text.size();
      const auto [read, error] = std::from_chars(text.data(), end, value);
      const bool good = error == std::errc() && read == end && value >= 0;
      return good ? "" : fmt::format("must be a number that is not negative, got {}", text);
    },
    "NONNEGATIVE");

void add_options(CLI::App& app, const Program& program, Options& o) {
  // so that scripts can append to default options
  app.option_defaults()->always_capture_default()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_option("--data", o.data,
                 "Where the data are; default: $MANTISSA_DATA, the XDG data folder, /usr/share/datasets");
  if (!program.datasets.empty()) {
    app.add_option("--dataset", o.dataset, "Data set")->check(CLI::IsMember(program.datasets));
    app.add_option("--workers", o.workers, "Loader threads; 0: load in the training thread")->check(CLI::Range(0, 256));
    app.add_option("--limit", o.limit, "Use only the first images of each part; 0: all")->check(not_negative);
  }
  if (!program.models.empty()) app.add_option("--model", o.model, "Model")->check(CLI::IsMember(program.models));
  for (const Flag& flag : program.flags) {
    std::visit([&](auto* value) {
      CLI::Option* option = app.add_option(flag.name, *value, flag.help);
      if constexpr (std::is_same_v<decltype(value), double*>) option->check(not_negative);
      else if constexpr (std::is_same_v<decltype(value), std::int64_t*>)
        option->check(CLI::Range(flag.least, std::int64_t{1} << 40));
      else if (!flag.choices.empty()) option->check(CLI::IsMember(flag.choices));
    }, flag.value);
  }
  app.add_option("--epochs", o.epochs, "Passes over the training data")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{100000}));
  app.add_option("--minutes", o.minutes, "Train so long instead; where a run then ends depends on the machine; 0: off")
      ->check(not_negative);
  app.add_option("--batch", o.batch, "Samples per step")->check(CLI::Range(std::int64_t{1}, std::int64_t{60000}));
  app.add_option("--lr", o.lr, "Learning rate (peak of the schedule); 0: the optimizer's usual")
      ->check(not_negative);
  app.add_option("--optimizer", o.optimizer, "Optimizer")->check(CLI::IsMember({"sgd", "adam", "adamw"}));
  app.add_option("--schedule", o.schedule, "Learning rate schedule")
      ->check(CLI::IsMember({"onecycle", "cosine", "constant"}));
  app.add_option("--amp", o.amp, "Mixed precision")->check(CLI::IsMember({"off", "bf16", "f16"}));
  app.add_flag("--tf32", o.tf32, "Let a GPU round operands of f32 products to TF32");
  app.add_option("--device", o.device, "cpu, cuda, cuda:N, or auto: cuda where there is a GPU");
  app.add_option("--seed", o.seed, "Seed of initial weights, order and dropout");
  app.add_option("--threads", o.threads, "CPU threads; 0: all cores")->check(CLI::Range(0, 1024));
  app.add_option("--save", o.save, "Checkpoint file, written after each epoch and on Ctrl-C");
  app.add_option("--save-every", o.save_every, "Also write it every so many steps; 0: do not")
      ->check(not_negative);
  app.add_option("--resume", o.resume, "Go on from this checkpoint");
  app.add_option("--log", o.log, "Folder for TensorBoard: losses on the way, and each epoch's values");
  app.add_option("--onnx", o.onnx, "ONNX file of the trained net, written at the end");
  app.add_option("--profile", o.profile,
                 "Record ten steps, after ten to warm up: a table, and this file for ui.perfetto.dev");
  app.add_flag("--json", o.json, "One JSON object per line instead of text");
}

[[noreturn]] void refuse(const std::string& mistake) {
  fmt::print(stderr, "error: {}; see --help\n", mistake);
  throw Exit{2};
}

}  // namespace

void configure(int argc, char** argv, const Program& program, Options& o) {
  CLI::App app(program.description, std::filesystem::path(argv[0]).filename().string());
  add_options(app, program, o);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& e) {
    throw Exit{app.exit(e)};
  } catch (const CLI::ParseError& e) {
    refuse(e.what());
  }
  if (o.save_every > 0 && o.save.empty()) refuse("--save-every needs --save FILE");
  if (o.lr == 0) o.lr = usual_lr(o.optimizer);
  mantissa::parse_device(o.device);  // report mistakes before anything is loaded
  if (o.threads > 0) mantissa::set_num_threads(o.threads);
  mantissa::allow_tf32(o.tf32);
  mantissa::manual_seed(o.seed);
  mantissa::io::catch_stop_signals();
  std::signal(SIGPIPE, SIG_IGN);  // a closed reader, such as tee after Ctrl-C, must not end the run (run.cpp: say)
}

std::string asked_model(int argc, char** argv, const std::string& usual) {
  std::string model = usual;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--model" && i + 1 < argc) model = argv[i + 1];
    if (word.starts_with("--model=")) model = word.substr(8);
  }
  return model;
}

bool interrupted() { return mantissa::io::stop_asked(); }

int run_guarded(int (*body)(int, char**), int argc, char** argv) {
  try {
    return body(argc, argv);
  } catch (const Exit& e) {
    return e.code;
  } catch (const std::exception& e) {
    std::fputs(fmt::format("error: {}\n", e.what()).c_str(), stderr);  // fmt::print throws if stderr is closed
    return 1;
  }
}

}  // namespace samples
