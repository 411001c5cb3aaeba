#include "run.h"

#include <fmt/format.h>
#include <mantissa/io/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numbers>

namespace samples {
namespace {

constexpr std::int64_t minute_positions = 1'000'000;  // resolution of --minutes in schedules

std::string mebibytes(std::int64_t bytes) { return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20)); }

std::string text_of(const Values& values) {  // "loss 0.1234, test accuracy 98.76 %"
  std::string text;
  for (const auto& [name, value] : values) {
    std::string words = name;
    std::replace(words.begin(), words.end(), '_', ' ');
    const bool percent = name.ends_with("accuracy");
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", words,
                        percent ? fmt::format("{:.2f} %", 100 * value) : fmt::format("{:.4f}", value));
  }
  return text;
}

// A full disk behind the output must not stop training. A broken pipe is treated like a closed terminal: the run saves
// and ends, except under nohup (io/stop.h).
void say(std::string line) {
  line += '\n';
  const bool written = std::fwrite(line.data(), 1, line.size(), stdout) == line.size() && std::fflush(stdout) == 0;
  if (!written && errno == EPIPE) ::kill(::getpid(), SIGHUP);
}
std::string line_of(const nlohmann::json& j) {  // paths, and generated text, need not be UTF-8
  return j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Checks output paths before the training, so that mistakes are not found after it.
void check_writable(const std::vector<std::string>& paths) {
  for (const std::string& path : paths)
    if (!path.empty()) const io::AtomicFile possible(path);
}

bool is_another_file(const std::string& path, const std::string& than) {  // exists, and is not the same file
  std::error_code none;
  return std::filesystem::exists(path, none) && !std::filesystem::equivalent(path, than, none);
}

// Keeps the current file as path.before (a hard link): a save then replaces only the original name.
void keep_as_before(const std::string& path) {
  const std::filesystem::path file = std::filesystem::canonical(path), before = path + ".before";
  std::filesystem::remove(before);
  std::error_code no_links;
  std::filesystem::create_hard_link(file, before, no_links);
  if (no_links) std::filesystem::copy_file(file, before);
}

}  // namespace

Device device_of(const Options& o) {
  const Device device = parse_device(o.device);
  const bool own = !device.is_cpu() && o.device.find(':') == o.device.npos && distributed::world().size() > 1;
  return own ? parse_device(concat("cuda:", distributed::local_rank())) : device;
}

std::unique_ptr<optim::Optimizer> make_optimizer(const Options& o, const NamedTensors& parameters) {
  if (o.optimizer == "sgd")
    return std::make_unique<optim::Sgd>(
        parameters,
        optim::SgdOptions{.lr = o.lr, .momentum = 0.9, .weight_decay = o.weight_decay, .nesterov = true});
  if (o.optimizer == "adam") return std::make_unique<optim::Adam>(parameters, optim::AdamOptions{.lr = o.lr});
  return std::make_unique<optim::AdamW>(parameters, optim::AdamWOptions{.lr = o.lr});
}

optim::Schedule make_schedule(const Options& o, std::int64_t steps, double lr) {
  if (o.schedule == "onecycle") return optim::OneCycleLR{.max_lr = lr, .total_steps = steps};
  if (o.schedule == "constant") return [](std::int64_t) { return 1.0; };
  return [steps](std::int64_t step) {  // linear warm-up for a twentieth, then half a cosine down to 0
    const double part = static_cast<double>(step + 1) / static_cast<double>(steps), warm = 0.05;
    return part < warm ? part / warm : 0.5 + 0.5 * std::cos(std::numbers::pi * (part - warm) / (1 - warm));
  };
}

Run::Run(const Options& o, const Plan& plan)
    : dtype(o.amp == "bf16"  ? bf16
            : o.amp == "f16" ? f16
                             : f32),
      device(device_of(o)), world(distributed::world()), scaler({.enabled = o.amp == "f16"}), o_(o),
      plan_(plan), seed_(o.seed) {
  check(plan.steps_per_epoch >= 1, "the training data are fewer than one batch of ", o.batch);
  parts_.push_back({"scaler", [this] { return scaler.state_dict(); },
                    [this](const NamedTensors& s) {
                      if (!s.empty()) scaler.load_state_dict(s);
                    }});
}

void Run::keep(const std::string& area, nn::ModuleRef net) {
  nn::to(net, device);
  if (device.is_cuda() && dtype != f32) nn::to(net, Layout::channels_last);  // as its convolutions are then
  parts_.push_back(
      {area, [net] { return nn::state_dict(net); }, [net](const NamedTensors& s) { nn::load_state_dict(net, s); }});
}

void Run::keep(const std::string& area, data::Loader& loader) {
  parts_.push_back(
      {area, [&loader] { return loader.state_dict(); },
       [&loader](const NamedTensors& s) { loader.load_state_dict(s); }});
}

void Run::keep(const std::string& area, const Tensor& tensor) {
  parts_.push_back({area, [tensor] { return NamedTensors{{"value", tensor}}; }, [area, tensor](const NamedTensors& s) {
                      const std::string mismatch = io::describe_mismatch({{"value", tensor}}, s);
                      check(mismatch.empty(), area, ": ", mismatch);
                      Tensor(tensor).copy_(s[0].second);
                    }});
}

void Run::keep(const std::string& area, optim::WeightAverage& average) {
  parts_.push_back({area, [&average] { return average.state_dict(); },
                    [&average](const NamedTensors& s) { average.load_state_dict(s); }});
}

optim::Optimizer& Run::optimizer(const std::string& area, const NamedTensors& parameters) {
  return optimizer(area, make_optimizer(o_, parameters));
}

optim::Optimizer& Run::optimizer(const std::string& area, std::unique_ptr<optim::Optimizer> made) {
  optim::Optimizer* optimizer = optimizers_.emplace_back(std::move(made)).get();
  const std::int64_t steps = o_.minutes > 0 ? minute_positions : o_.epochs * plan_.steps_per_epoch;
  schedulers_.emplace_back(*optimizer, make_schedule(o_, steps, optimizer->lr()));
  parts_.push_back({area, [optimizer] { return optimizer->state_dict(); },
                    [optimizer](const NamedTensors& s) { optimizer->load_state_dict(s); }});
  return *optimizer;
}

void Run::set_rates() {
  const double part = elapsed() / (60 * o_.minutes);
  const auto position = std::min(static_cast<std::int64_t>(part * minute_positions), minute_positions - 1);
  for (optim::Scheduler& s : schedulers_) s.set_step(o_.minutes > 0 ? position : step_);
}

bool Run::over() const {
  if (stopped_) return true;
  return o_.minutes > 0 ? elapsed() >= 60 * o_.minutes : step_ >= o_.epochs * plan_.steps_per_epoch;
}

// Decisions by clock or Ctrl-C must be the same in all processes.
void Run::agree() {
  stop_agreed_ = interrupted();
  if (world.size() == 1) return;
  const Tensor seen = from_data<double>(std::vector{stop_agreed_ ? 1.0 : 0.0, before_ + clock_.seconds()}, {2});
  world.all_reduce(seen, distributed::ReduceOp::max);
  stop_agreed_ = seen.data<double>()[0] > 0;
  agreed_seconds_ = seen.data<double>()[1];
}

bool Run::next() {
  agree();
  const bool inside = std::exchange(inside_, false);
  if (inside) ++step_;
  const bool ends = over();  // asked once: it looks at the clock
  if (inside) {
    if (ends || step_ % plan_.steps_per_epoch == 0) end_epoch();
    else if (o_.save_every > 0 && step_ % o_.save_every == 0) save();
  }
  if (ends || stopped_) return false;
  if (stop_agreed_) {
    progress_.reset();
    save();
    interrupted_ = true;
    return false;
  }
  if (!progress_) begin_epoch();
  set_rates();
  follow_profile();
  return inside_ = true;
}

void Run::follow_profile() {
  if (o_.profile.empty() || !world.is_first()) return;
  const std::int64_t left = o_.minutes > 0 ? INT64_MAX : o_.epochs * plan_.steps_per_epoch - step_ + steps_here_;
  const std::int64_t first = std::min<std::int64_t>(10, left / 2);  // for a short run, its second half
  if (steps_here_ == first) profile_.emplace(ProfileOptions{.shapes = true});
  if (steps_here_ == first + 10) finish_profile();
  ++steps_here_;
}

// Like log(): a trace that cannot be written does not end a run.
void Run::finish_profile() {
  if (!profile_) return;
  note(profile_->table());
  try {
    io::save_trace(o_.profile, *profile_);
    note(concat("saved ", o_.profile, ": ui.perfetto.dev or chrome://tracing draw it"));
  } catch (const Error& e) {
    note(concat("warning: no profile saved: ", e.what()));
  }
  profile_.reset();
}

void Run::done(const Losses& losses) {
  const NoGrad no_grad;
  ++epoch_steps_;
  if (sums_.empty())
    for (const auto& [name, loss] : losses) sums_.emplace_back(name, zeros({}, {.device = loss.device()}));
  for (std::size_t i = 0; i < losses.size(); ++i) sums_.at(i).second.add_(losses[i].second.detach());
  if (progress_->due())
    progress_->update(step_ % plan_.steps_per_epoch + 1, losses.empty() ? NAN : losses[0].second.item<double>());
  if (curves_ && step_ % std::max<std::int64_t>(1, plan_.steps_per_epoch / 100) == 0) {
    Values values;
    for (const auto& [name, loss] : losses) values.emplace_back(name, loss.item<double>());
    log("step/", values);
  }
}

// Like a failed save, a log that cannot be written does not end a run.
void Run::log(const char* group, const Values& values) try {
  if (!curves_) return;
  for (const auto& [name, value] : values) curves_->add_scalar(group + name, value, step_);
} catch (const Error& e) {
  note(concat("no more curves: ", e.what()));
  curves_.reset();
}

void Run::begin_epoch() {
  const std::int64_t epoch = step_ / plan_.steps_per_epoch + 1;
  progress_.emplace(o_.minutes > 0 ? concat("epoch ", epoch) : concat("epoch ", epoch, "/", o_.epochs),
                    plan_.steps_per_epoch, world.is_first() ? 2 : -1);
  epoch_clock_ = Stopwatch();
  epoch_steps_ = 0;
  sums_.clear();
}

void Run::end_epoch() {
  progress_.reset();
  const double seconds = epoch_clock_.seconds(), steps = static_cast<double>(epoch_steps_),
               rate = steps * static_cast<double>(plan_.items_per_step * world.size()) / seconds;
  const std::int64_t epoch = (step_ - 1) / plan_.steps_per_epoch + 1;
  Values values;
  for (const auto& [name, sum] : sums_)
    values.emplace_back(name, world.all_reduce(sum.item<double>() / steps, distributed::ReduceOp::mean));
  measure();
  if (measured_) values.insert(values.end(), measured_->begin(), measured_->end());
  const std::string text =
      fmt::format("epoch {}: {}, {:.1f} s, {:.0f} {}/s", epoch, text_of(values), seconds, rate, plan_.items);
  log("epoch/", values);
  values.insert(values.end(),
                {{"epoch", static_cast<double>(epoch)}, {"seconds", seconds}, {plan_.items + "_per_second", rate}});
  print("epoch", text, values);
  save();
}

void Run::measure() {
  RngState random = rng_state();  // random numbers used by an evaluation must not affect the training
  const RandomScope scope(random);
  if (measure_) measured_ = measure_();
}

// A full disk or lack of memory for the copies must not end a run: it continues, reports it, and fails at the end if
// the last save did.
void Run::save() {
  if (o_.save.empty() || !world.is_first()) return;
  try {
    io::Checkpoint c;
    c.set("model", o_.model);
    for (const Part& part : parts_) c.put(part.area, part.save());
    const auto seed = static_cast<std::int64_t>(seed_);
    c.put("rng", {{"state", io::to_tensor(rng_state())}});
    c.put("run",
          {{"position", from_data<std::int64_t>(std::vector{step_, plan_.steps_per_epoch, o_.batch, seed}, {4})}});
    if (o_.minutes > 0) c.put("run", {{"seconds", scalar(elapsed(), {.dtype = f64})}});
    if (stopped_) c.put("run", {{"stopped", scalar(1, {.dtype = i64})}});
    if (replaces_) keep_as_before(o_.save);
    replaces_ = false;
    io::save_checkpoint(o_.save, c);
    saved_ = true;
  } catch (const std::exception& e) {  // including bad_alloc
    note(concat("warning: checkpoint not saved: ", e.what()));
    saved_ = false;
  }
}

void Run::resume(const std::string& path) {
  const io::Checkpoint c = io::load_checkpoint(path);
  check(c.text("model") == o_.model, path, ": holds a model \"", c.text("model"), "\", not \"", o_.model, "\"");
  const std::vector<std::int64_t> position = c.tensor("run.position").to_vector<std::int64_t>();
  check(position.size() == 4, path, ": holds no position of a run");
  check(position[0] >= 0 && position[1] == plan_.steps_per_epoch && position[2] == o_.batch, path, ": was made with ",
        position[1], " steps per epoch of ", position[2], " samples, this run has ", plan_.steps_per_epoch, " of ",
        o_.batch, ": resume with the same data and options");
  for (const Part& part : parts_) {
    try {
      part.load(c.get(part.area));
    } catch (const Error& e) { fail(path, ": ", e.what(), "; the options must be those of the run that saved it"); }
  }
  set_rng_state(io::rng_from_tensor(c.tensor("rng.state")));
  step_ = position[0];
  seed_ = static_cast<std::uint64_t>(position[3]);
  for (const auto& [name, value] : c.get("run")) {
    if (name == "seconds") before_ = value.item<double>();
    if (name == "stopped") measure();  // sets it again if this run's goal is not a higher one
  }
}

void Run::start(const std::string& source, std::int64_t parameters) {
  if (world.is_first()) check_writable({o_.save, o_.onnx, o_.profile});
  check(world.size() == 1 || !parallel_.empty(), "this sample trains in one process, not in ", world.size());
  if (world.size() > 1) note(concat("process group of ", world.size(), " ranks, each with batches of ", o_.batch));
  const std::string products = o_.tf32 && device.is_cuda() ? " with TF32" : "";
  const std::string precision = (o_.amp == "off" ? "f32" : o_.amp + " mixed precision") + products;
  if (!world.is_first()) {  // only the first rank prints and logs
  } else if (o_.json) {
    const nlohmann::json j = {{"event", "start"},
                              {"data", source},
                              {"model", o_.model},
                              {"parameters", parameters},
                              {"amp", o_.amp},
                              {"tf32", o_.tf32},
                              {"optimizer", o_.optimizer},
                              {"lr", o_.lr},
                              {"batch", o_.batch},
                              {"epochs", o_.epochs},
                              {"seed", o_.seed},
                              {"device", concat(device)},
                              {"threads", num_threads()}};
    say(line_of(j));
  } else {
    say(fmt::format("{}\n{} with {} parameters, {}, {} at {}, batch {}, {}, {} threads", source, o_.model, parameters,
                    precision, o_.optimizer, o_.lr, o_.batch, concat(device), num_threads()));
  }
  replaces_ = is_another_file(o_.save, o_.resume);
  if (replaces_)
    note(concat(o_.save, " will be replaced, and kept as ", o_.save, ".before; --resume ", o_.save,
                " would go on from it"));
  if (!o_.resume.empty()) {
    resume(o_.resume);
    note(concat("resumed from ", o_.resume, " after ", step_, " steps",
                o_.save.empty() ? "; nothing more is saved (pass --save FILE)" : ""));
    std::error_code none;
    if (over() && !std::filesystem::equivalent(o_.save, o_.resume, none)) save();  // no step will do it
  }
  RngState rng = rng_state();  // each process has its own dropout stream; the saved one is the first rank's
  rng.seed += static_cast<std::uint64_t>(world.rank());
  set_rng_state(rng);
  if (!o_.log.empty() && world.is_first()) curves_.emplace(o_.log);
  clock_ = Stopwatch();
}

int Run::finish() {
  finish_profile();
  if (interrupted_) {
    if (o_.save.empty()) note("interrupted; nothing saved (pass --save FILE)");
    else if (saved_) note(concat("interrupted; go on with --resume ", o_.save));
    return saved_ ? 130 : 1;
  }
  if (!measured_) measure();  // resumed at its end
  const MemoryStats memory = memory_stats(device);
  Values values = measured_.value_or(Values{});
  std::string text = text_of(values);
  text += fmt::format("{}{:.1f} s; peak memory {} in tensors, {} reserved", text.empty() ? "" : " after ", elapsed(),
                      mebibytes(memory.peak_allocated), mebibytes(memory.peak_reserved));
  values.insert(values.end(), {{"seconds", elapsed()},
                               {"peak_bytes", static_cast<double>(memory.peak_allocated)},
                               {"peak_reserved_bytes", static_cast<double>(memory.peak_reserved)}});
  if (scaler.is_enabled()) {
    text += fmt::format("; loss scale {:.0f}", scaler.get_scale());
    values.emplace_back("loss_scale", scaler.get_scale());
  }
  print("end", text, values);
  save_onnx();
  return saved_ ? 0 : 1;
}

void Run::save_onnx() const {
  if (o_.onnx.empty() || !world.is_first()) return;
  save_onnx_();
  note(concat("saved ", o_.onnx));
}

void Run::note(const std::string& text) const {
  if (!world.is_first()) return;
  say(o_.json ? line_of({{"event", "note"}, {"text", text}}) : text);
}

void Run::print(const char* event, const std::string& text, const Values& values) const {
  if (!world.is_first()) return;
  nlohmann::json j = {{"event", event}};
  for (const auto& [name, value] : values) {
    if (std::isfinite(value) && value == std::floor(value) && std::abs(value) < 1e15)
      j[name] = static_cast<std::int64_t>(value);
    else j[name] = value;
  }
  say(o_.json ? line_of(j) : text);
}

}  // namespace samples
