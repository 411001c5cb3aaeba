// Command-line options shared by the samples. A sample sets its defaults, models, datasets and own flags:
//
//   samples::Options o{.model = "gpt", .batch = 32, .lr = 1e-3};
//   samples::configure(argc, argv, {.description = "Trains ...", .flags = {{"--width", &width, "..."}}}, o);
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace samples {

struct Options {
  std::string data = {}, dataset = {}, model = {}, optimizer = "adamw", amp = "bf16", schedule = "onecycle";
  std::string device = "auto";
  std::string save = {}, resume = {}, log = {}, onnx = {}, profile = {};
  std::int64_t epochs = 3, batch = 128, limit = 0, save_every = 0;
  double lr = 0;               // 0: the optimizer's default for image classifiers
  double weight_decay = 5e-4;  // for sgd
  double minutes = 0;          // 0: limited by epochs
  std::uint64_t seed = 1;
  int threads = 0, workers = 1;
  bool tf32 = false, json = false;
};

struct Flag {
  const char* name;
  std::variant<std::int64_t*, double*, std::string*> value;
  const char* help;
  std::vector<std::string> choices = {};  // allowed values of a string; none: any
  std::int64_t least = 1;                 // minimum of an integer; floating-point values must not be negative
};
struct Program {
  std::string description;
  std::vector<std::string> models = {}, datasets = {};  // adds --model; --dataset, --limit and --workers
  std::vector<Flag> flags = {};
};

// Parses the options and applies seed and threads; from now on Ctrl-C, SIGTERM and a lost terminal only request an end
// (interrupted()). Throws Exit after --help or after a mistake, which has been reported in one line.
void configure(int argc, char** argv, const Program& program, Options& o);
// The --model of a command line, or `usual`: for samples whose defaults depend on it.
std::string asked_model(int argc, char** argv, const std::string& usual);
struct Exit {
  int code;
};

bool interrupted();  // a second signal ends the program at once

// Runs a sample's main: errors become one line and exit code 1.
int run_guarded(int (*body)(int, char**), int argc, char** argv);

}  // namespace samples
