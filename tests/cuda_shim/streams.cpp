// Streams as queues of functions, events, captured graphs. Work is done at once, or, when a test asks for it, as late
// as a real device might do it and in an order that only streams and events restrain.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <utility>

#include "tests/cuda_shim/runtime_parts.h"

namespace cuda_shim {
namespace {

const char* const late_seed = std::getenv("MANTISSA_SHIM_LATE");
bool late = late_seed != nullptr;
std::mt19937 random_order{late_seed ? static_cast<unsigned>(std::atoi(late_seed)) : 1u};
// never destroyed: it holds what work is left
std::vector<cuda_shim_stream*>& streams = *new std::vector<cuda_shim_stream*>;
cuda_shim_stream default_streams[most_devices];
thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;

bool runnable(const cuda_shim_stream& s) {
  return !s.tasks.empty() && (!s.tasks.front().ready || s.tasks.front().ready());
}
void run_front(cuda_shim_stream& s) {
  auto task = std::move(s.tasks.front());
  s.tasks.pop_front();
  if (task.work) task.work();
}
// Runs tasks of all streams, in an order of its own, until done() is true.
template <class Done> void run_until(Done&& done) {
  while (!done()) {
    std::vector<cuda_shim_stream*> able;
    for (cuda_shim_stream* s : all_streams()) if (runnable(*s)) able.push_back(s);
    if (able.empty()) throw std::runtime_error("cuda_shim: streams wait for events that nobody records");
    run_front(*able[random_order() % able.size()]);
  }
}
bool any_capture() {
  for (cuda_shim_stream* s : all_streams()) if (s->capture) return true;
  return false;
}
bool this_thread_captures() {
  for (cuda_shim_stream* s : all_streams()) if (s->capture && s->by == std::this_thread::get_id()) return true;
  return false;
}

// A kernel or copy; what goes wrong in it stays with the device, as on a GPU.
void run_guarded(const std::function<void()>& work) {
  if (sticky != cudaSuccess) return;
  const DeviceAccess access;
  try {
    work();
  } catch (const std::exception& e) {
    const auto* fault = dynamic_cast<const Fault*>(&e);
    sticky = fault ? fault->error : cudaErrorLaunchFailure;
    explanations[sticky] = e.what();
    std::fprintf(stderr, "%s\n", e.what());
  }
}

}  // namespace

cuda_shim_stream& stream_of(cudaStream_t s) {
  if (s) return *s;
  default_streams[device].device = device;
  return default_streams[device];
}
std::vector<cuda_shim_stream*> all_streams() {
  std::vector<cuda_shim_stream*> all = streams;
  for (auto& s : default_streams) all.push_back(&s);
  return all;
}
void drain() {
  run_until([] {
    for (cuda_shim_stream* s : all_streams()) if (!s->tasks.empty()) return false;
    return true;
  });
}
cudaError_t before_unsafe() {
  if (capture_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  for (cuda_shim_stream* s : all_streams()) {
    if (!s->capture || s->by != std::this_thread::get_id()) continue;
    s->spoiled = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  return cudaSuccess;
}
cudaError_t before_waiting(Wait what) {
  if (sticky != cudaSuccess) return sticky;
  return (what == Wait::for_device ? any_capture() : this_thread_captures()) ? cudaErrorStreamCaptureUnsupported
                                                                             : cudaSuccess;
}

cudaError_t enqueue(cudaStream_t stream, std::function<void()> work) {
  if (null_device) return cudaSuccess;
  const std::lock_guard lock(mutex);
  if (sticky != cudaSuccess) return result(sticky);
  cuda_shim_stream& s = stream_of(stream);
  if (s.capture) {
    s.capture->work.push_back(std::move(work));
  } else {
    s.tasks.push_back({{}, [work = std::move(work)] { run_guarded(work); }});
    if (!late) run_until([&] { return s.tasks.empty(); });
  }
  return result(late ? cudaSuccess : sticky);
}

void set_late(bool on, unsigned seed) {
  const std::lock_guard lock(mutex);
  drain();
  late = on;
  random_order.seed(seed);
}

}  // namespace cuda_shim

using namespace cuda_shim;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) {
  note_call(__func__);
  const std::lock_guard lock(mutex);
  streams.push_back(*s = new cuda_shim_stream{
                        .device = device, .tasks = {}, .capture = nullptr, .by = {}, .spoiled = false});
  return cudaSuccess;
}
// What was put on the stream is done later, and the stream's address may soon be that of another: as CUDA has it.
cudaError_t cudaStreamDestroy(cudaStream_t s) {
  note_call(__func__);
  const std::lock_guard lock(mutex);
  std::erase(streams, s);
  if (s->tasks.empty()) {
    delete s;
  } else {
    auto* rest = new cuda_shim_stream;
    rest->device = s->device;
    std::swap(rest->tasks, s->tasks);
    streams.push_back(rest);  // until the program ends: tests destroy few streams
    delete s;
  }
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  note_call(__func__);
  const std::lock_guard lock(mutex);
  if (const cudaError_t e = before_waiting(Wait::for_stream); e != cudaSuccess) return result(e);
  run_until([&] { return stream_of(s).tasks.empty(); });
  return result(sticky);
}
cudaError_t cudaStreamQuery(cudaStream_t s) {
  note_call(__func__);
  const std::lock_guard lock(mutex);
  if (const cudaError_t e = before_unsafe(); e != cudaSuccess) return result(e);
  return result(stream_of(s).tasks.empty() ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) {
  note_call(__func__);
  *e = new cuda_shim_event{.device = device};
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  note_call(__func__);
  const std::lock_guard lock(mutex);
  delete e;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t stream) {
  note_call(__func__);
  if (null_device) return cudaSuccess;
  const std::lock_guard lock(mutex);
  cuda_shim_stream& s = stream_of(stream);
  if (s.device != e->device) return result(cudaErrorInvalidResourceHandle);
  if (s.capture) return cudaSuccess;  // order inside one captured stream is that of its work
  ++e->recorded;
  s.tasks.push_back({{}, [reached = e->reached] {
    ++reached->times;
    reached->last = std::chrono::steady_clock::now();
  }});
  if (!late) run_until([&] { return s.tasks.empty(); });
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t e, unsigned) {
  note_call(__func__);
  if (null_device) return cudaSuccess;
  const std::lock_guard lock(mutex);
  cuda_shim_stream& s = stream_of(stream);
  if (s.capture) return cudaSuccess;
  s.tasks.push_back({[reached = e->reached, wanted = e->recorded] { return reached->times >= wanted; }, {}});
  if (!late) run_until([&] { return s.tasks.empty(); });
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  note_call(__func__);
  const std::lock_guard lock(mutex);
  if (const cudaError_t error = before_waiting(Wait::for_stream); error != cudaSuccess) return result(error);
  run_until([&] { return e->is_done(); });
  return result(sticky);
}
cudaError_t cudaEventQuery(cudaEvent_t e) {
  note_call(__func__);
  const std::lock_guard lock(mutex);
  if (const cudaError_t error = before_unsafe(); error != cudaSuccess) return result(error);
  constexpr int patience = 20;  // time passes for a host that asks again and again
  static int asked = 0;
  if (!e->is_done() && ++asked % patience == 0) run_until([&] { return e->is_done(); });
  return result(e->is_done() ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t a, cudaEvent_t b) {
  note_call(__func__);
  *ms = std::chrono::duration<float, std::milli>(b->reached->last - a->reached->last).count();
  return cudaSuccess;
}

// --- graphs ---
cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus* status) {
  note_call(__func__);
  const std::lock_guard lock(mutex);
  *status = stream_of(s).capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode) {
  note_call(__func__);
  const std::lock_guard lock(mutex);
  if (!s || s->capture) return result(cudaErrorInvalidValue);
  s->capture = new cuda_shim_graph;
  s->by = std::this_thread::get_id();
  s->spoiled = false;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  note_call(__func__);
  std::swap(*mode, capture_mode);
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t* graph) {
  note_call(__func__);
  const std::lock_guard lock(mutex);
  *graph = std::exchange(s->capture, nullptr);
  if (std::exchange(s->spoiled, false)) {
    delete std::exchange(*graph, nullptr);
    return result(cudaErrorStreamCaptureInvalidated);
  }
  return result(*graph ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  note_call(__func__);
  *exec = new cuda_shim_graph(*graph);
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s) {
  note_call(__func__);
  {
    const std::lock_guard lock(mutex);
    if (stream_of(s).capture) return result(cudaErrorStreamCaptureUnsupported);
  }
  for (const auto& work : exec->work) {
    if (const cudaError_t e = enqueue(s, work); e != cudaSuccess) return e;
  }
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  note_call(__func__);
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  note_call(__func__);
  delete exec;
  return cudaSuccess;
}
