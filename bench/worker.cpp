// The Mantissa side of the benchmark. The driver (bench/driver.py) writes one request per line on standard input and
// reads one answer per line; between requests the worker waits in read(). bench/protocol.py lists the requests.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "ceilings.h"
#include "operators.h"
#include "workloads.h"

namespace bench {
namespace {

using json = nlohmann::json;

std::string version() {
  const int numbers[] = {MANTISSA_VERSION_MAJOR, MANTISSA_VERSION_MINOR, MANTISSA_VERSION_PATCH};
  return std::to_string(numbers[0]) + "." + std::to_string(numbers[1]) + "." + std::to_string(numbers[2]);
}
double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Usage {
  double cpu;
  long involuntary;
};
Usage usage() {
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return {seconds(u.ru_utime) + seconds(u.ru_stime), u.ru_nivcsw};
}

// Rows of a file that the driver has mapped too: what it overwrites is seen here at once.
class Rows {
 public:
  explicit Rows(const json& spec) : sizes_(Dims{}), dtype_(spec.at("dtype") == "i64" ? i64 : f32) {
    for (std::int64_t n : spec.at("sizes")) sizes_.push_back(n);
    const std::string path = spec.at("path");
    const int file = open(path.c_str(), O_RDONLY);
    check(file >= 0, path, ": cannot be opened");
    struct stat status{};
    fstat(file, &status);
    bytes_ = static_cast<std::size_t>(numel_of(sizes_)) * size_of(dtype_);
    const std::size_t length = static_cast<std::size_t>(status.st_size);
    check(length == bytes_, path, ": has ", static_cast<long>(length), " bytes, expected ", static_cast<long>(bytes_));
    base_ = mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    check(base_ != MAP_FAILED, path, ": cannot be mapped");
  }
  Rows(const Rows&) = delete;
  ~Rows() { munmap(base_, bytes_); }

  std::int64_t count() const { return sizes_[0]; }
  const void* row(std::int64_t i) const { return static_cast<const char*>(base_) + i * row_bytes(); }
  std::int64_t row_bytes() const { return static_cast<std::int64_t>(bytes_) / sizes_[0]; }
  Tensor gather(const std::int64_t* index, std::int64_t n) const {
    Dims sizes = sizes_;
    sizes[0] = n;
    const Tensor batch = Tensor::allocate(sizes, dtype_);
    const std::int64_t bytes = row_bytes();
    parallel_for(n, std::max<std::int64_t>(1, 65536 / bytes), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        std::memcpy(static_cast<char*>(batch.raw_data()) + i * bytes, row(index[i]), static_cast<std::size_t>(bytes));
    });
    return batch;
  }

 private:
  Dims sizes_;
  Dtype dtype_;
  std::size_t bytes_ = 0;
  void* base_ = nullptr;
};

std::uint32_t digest(const void* data, std::int64_t bytes, std::uint32_t start = 0) {
  return static_cast<std::uint32_t>(crc32_z(start, static_cast<const Bytef*>(data), static_cast<std::size_t>(bytes)));
}

// The losses of a turn. On a GPU each is put in its place of one tensor, which is read once, after the turn: a captured
// step overwrites its result, and to read each loss for itself would wait for the GPU as often.
class Losses {
 public:
  Losses(Device device, std::int64_t count) {
    if (device.is_cuda()) all_ = zeros({count}, {.device = device});
  }
  void add(const Tensor& loss) {
    if (!all_.defined()) return each_.push_back(loss);
    const NoGrad no_grad;
    Tensor place = select(all_, 0, next_++);
    place.copy_(loss);
  }
  json read() const {
    json numbers = json::array();
    for (const Tensor& loss : each_) numbers.push_back(loss.item<double>());
    if (all_.defined())
      for (const float loss : all_.to(cpu).to_vector<float>()) numbers.push_back(static_cast<double>(loss));
    return numbers;
  }

 private:
  std::vector<Tensor> each_;
  Tensor all_;
  std::int64_t next_ = 0;
};

class Session {
 public:
  explicit Session(const json& spec)
      : device_(spec.at("device") == "cuda" ? cuda : cpu), dtype_(spec.at("precision") == "bf16" ? bf16 : f32),
        batch_(spec.at("batch")), work_(make_workload(spec.at("model"), device_, dtype_)), x_(spec.at("x")),
        y_(spec.at("y")), order_(spec.at("order")), eval_x_(spec.at("eval_x")), eval_y_(spec.at("eval_y")) {
    nn::load(work_.module, spec.at("init"));
    if (!spec.value("captured", false)) return;
    check(device_.is_cuda(), "a captured step needs the device cuda");
    captured_ = std::make_unique<jit::CapturedStep>([this](const std::vector<Tensor>& batch) -> std::vector<Tensor> {
      return {train_step(batch[0], batch[1])};
    });
  }

  json description() const {
    auto state = nn::state_dict(work_.module);
    std::sort(state.begin(), state.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::uint32_t weights = 0;
    for (const auto& [name, tensor] : state) {
      const Tensor t = tensor.to(cpu).contiguous();
      weights = digest(t.raw_data(), t.nbytes(), weights);
    }
    std::vector<std::string> names;
    for (const auto& p : nn::named_parameters(work_.module)) names.push_back(p.first);
    return {{"parameters", names}, {"elements", nn::count(work_.module)}, {"weights", weights},
            {"order", digest(order_.row(0), order_.count() * order_.row_bytes())}};
  }

  json run(std::int64_t count) {
    std::vector<Tensor> labels;
    Losses losses(device_, count);
    const std::int64_t first = step_;
    const Usage before = usage();
    const double begin = now();
    for (std::int64_t i = 0; i < count; ++i) {
      labels.push_back(batch_of(y_, step_));
      const Tensor x = batch_of(x_, step_).to(device_), y = labels.back().to(device_);
      losses.add(captured_ ? captured_->run({x, y}).at(0) : train_step(x, y));
      ++step_;
    }
    const json numbers = losses.read();  // waits for a GPU
    const double seconds = now() - begin;
    const Usage after = usage();
    json index_sums = json::array(), label_sums = json::array();
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t sum = 0;
      for (std::int64_t k = 0; k < batch_; ++k) sum += indices(first + i)[k];
      index_sums.push_back(sum);
      label_sums.push_back(labels[static_cast<std::size_t>(i)].sum().item<std::int64_t>());
    }
    return {{"seconds", seconds}, {"losses", numbers}, {"indices", index_sums}, {"labels", label_sums}, {"step", step_},
            {"cpu", after.cpu - before.cpu}, {"involuntary", after.involuntary - before.involuntary},
            {"replays", captured_ ? captured_->replays() : 0}};
  }

  json evaluate() {
    const NoGrad no_grad;
    work_.train(false);
    double loss = 0;
    std::int64_t right = 0, seen = 0;
    for (std::int64_t first = 0; first < eval_x_.count(); first += batch_) {
      std::vector<std::int64_t> index;
      for (std::int64_t i = first; i < std::min(first + batch_, eval_x_.count()); ++i) index.push_back(i);
      const std::int64_t n = static_cast<std::int64_t>(index.size());
      const Tensor x = eval_x_.gather(index.data(), n).to(device_), y = eval_y_.gather(index.data(), n).to(device_);
      const Tensor logits = forward(x).to(f32);
      loss += loss_of(logits, y).item<double>() * static_cast<double>(y.numel());
      right += cast(argmax(logits, -1) == y, i64).sum().item<std::int64_t>();
      seen += y.numel();
    }
    work_.train(true);
    const double n = static_cast<double>(seen);
    return {{"loss", loss / n}, {"accuracy", static_cast<double>(right) / n}};
  }

  // The gradients of one batch at the weights of now; nothing is updated but the statistics of batch norms.
  json gradients(std::int64_t step, const std::string& path) {
    work_.optimizer->zero_grad();
    const Tensor loss = loss_for(batch_of(x_, step).to(device_), batch_of(y_, step).to(device_));
    backward(loss);
    NamedTensors all;
    for (const auto& [name, p] : nn::named_parameters(work_.module))
      all.emplace_back(name, p.grad().to(cpu).to(f32).contiguous());
    io::save_safetensors(path, all);
    work_.optimizer->zero_grad();
    return {{"loss", loss.item<double>()}};
  }

  // Weights and buffers under their names, the optimizer's state under "optim." and its parameter's name.
  void snapshot(const std::string& path) const {
    NamedTensors all;
    for (const auto& [name, t] : nn::state_dict(work_.module)) all.emplace_back(name, t.to(cpu).contiguous());
    const auto parameters = nn::named_parameters(work_.module);
    for (const auto& [name, t] : work_.optimizer->state_dict()) {
      if (!name.starts_with("state.")) continue;
      const std::size_t dot = name.find('.', 6);
      const auto i = static_cast<std::size_t>(std::stoll(name.substr(6, dot - 6)));
      all.emplace_back("optim." + parameters[i].first + name.substr(dot), t.to(cpu).contiguous());
    }
    io::save_safetensors(path, all);
  }

  std::int64_t step() const { return step_; }
  Device device() const { return device_; }

 private:
  const std::int64_t* indices(std::int64_t step) const {
    check(step < order_.count(), "the order has ", order_.count(), " steps, asked for step ", step);
    return static_cast<const std::int64_t*>(order_.row(step));
  }
  Tensor batch_of(const Rows& rows, std::int64_t step) const { return rows.gather(indices(step), batch_); }
  Tensor forward(const Tensor& x) const {
    if (dtype_ == f32) return work_.forward(x);
    return amp::autocast(dtype_, [&] { return work_.forward(x); });
  }
  Tensor loss_for(const Tensor& x, const Tensor& y) const {
    if (dtype_ == f32) return loss_of(work_.forward(x), y);
    return amp::autocast(dtype_, [&] { return loss_of(work_.forward(x), y); });
  }
  Tensor train_step(const Tensor& x, const Tensor& y) {
    work_.optimizer->zero_grad();
    const Tensor loss = loss_for(x, y);
    backward(loss);
    if (work_.clip > 0) (void)optim::clip_grad_norm_(nn::parameters(work_.module), work_.clip);
    work_.optimizer->step();
    return loss.detach();
  }

  Device device_;
  Dtype dtype_;
  std::int64_t batch_;
  Workload work_;
  Rows x_, y_, order_, eval_x_, eval_y_;
  std::int64_t step_ = 0;
  std::unique_ptr<jit::CapturedStep> captured_;  // the training step as one CUDA graph
};

// kB of /proc/self/status: "VmRSS", "VmHWM" (the most since the start or the last reset).
std::int64_t status_bytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != field + ":") continue;
    std::int64_t kb = 0;
    status >> kb;
    return kb * 1024;
  }
  fail("/proc/self/status has no ", field);
}
json memory(const std::optional<Session>& session) {
  const MemoryStats stats = memory_stats(session ? session->device() : cpu);
  return {{"rss", status_bytes("VmRSS")}, {"peak_rss", status_bytes("VmHWM")},
          {"peak_allocated", stats.peak_allocated},  // recordings included
          {"peak_reserved", stats.peak_reserved}};
}

// The operator that CALLS calls. Its result is looked at once: sum and sum of absolute values.
struct Calls {
  Operator call;
  json start(const json& request) {
    call = make_operator(request.at("name"), request.at("device") == "cuda" ? cuda : cpu);
    const Tensor result = call().detach().to(cpu).to(f64);
    return {{"sum", result.sum().item<double>()}, {"absolute", abs(result).sum().item<double>()}};
  }
  json run(std::int64_t count) const {
    const Usage before = usage();
    const double begin = now();
    Tensor last;
    for (std::int64_t i = 0; i < count; ++i) last = call();
    if (last.device().is_cuda()) synchronize(last.device());
    const double seconds = now() - begin;
    return {{"seconds", seconds}, {"involuntary", usage().involuntary - before.involuntary}};
  }
};

json answer(const json& request, std::optional<Session>& session, Calls& calls) {
  const std::string what = request.at("do");
  if (what == "MEMORY") {
    const json found = memory(session);
    if (request.value("reset", false)) std::ofstream("/proc/self/clear_refs") << "5";  // VmHWM begins anew
    return found;
  }
  if (what == "CEILINGS") return {{"f32", fma_f32()}, {"bf16", dot_bf16()}, {"copies", copies()}};
  if (what == "OPERATOR") return calls.start(request);
  if (what == "CALLS") return calls.run(request.at("count"));
  if (what == "INIT") {
    session.reset();
    if (cuda_is_available()) empty_cache(cuda);  // several workers share the GPU
    session.emplace(request.at("spec"));
    return session->description();
  }
  check(session.has_value(), what, " before INIT");
  if (what == "WARM" || what == "RUN") return session->run(request.at("steps"));
  if (what == "EVAL") return session->evaluate();
  if (what == "GRADIENTS") return session->gradients(request.at("step"), request.at("path"));
  if (what == "SNAPSHOT" || what == "DUMP") {
    session->snapshot(request.at("path"));
    return {{"step", session->step()}};
  }
  fail("no request is called ", what);
}

int serve() {
  std::optional<Session> session;
  Calls calls;
  const json hello = {{"ready", true}, {"framework", "mantissa"}, {"version", version()}, {"threads", num_threads()},
                      {"rss", status_bytes("VmRSS")}};
  std::cout << hello.dump() << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    json reply;
    try {
      const json request = json::parse(line);
      if (request.at("do") == "QUIT") break;
      reply = answer(request, session, calls);
    } catch (const std::exception& e) {
      reply = {{"error", e.what()}};
    }
    std::cout << reply.dump() << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace bench

int main() { return bench::serve(); }
