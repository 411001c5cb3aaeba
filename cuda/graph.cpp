// Capture and replay of a step as a CUDA graph: see core/accelerator.h. Every replay reads its position in the random
// number stream from a few bytes of device memory, written just before it on the same stream, with its inputs.
#include <optional>

#include "core/accelerator.h"
#include "core/recorded_memory.h"
#include "cuda/check.h"
#include "cuda/graph_inputs.h"
#include "cuda/recorded_memory.h"
#include "cuda/runtime.h"

namespace mantissa::cuda_backend {

struct Graph {
  ~Graph() {
    if (executable) (void)cudaGraphExecDestroy(executable);
    if (graph) (void)cudaGraphDestroy(graph);
    const CaptureRelaxed relaxed;
    (void)cudaFree(random);
  }
  Arena arena;
  RecordedMemory uses;
  // During capture. The graph has its own stream, so launches of other threads are not captured.
  struct Recording {
    explicit Recording(Arena& arena) : on_stream(stream.get()), in_arena(arena) {}
    Stream stream;
    StreamScope on_stream;
    ArenaScope in_arena;
  };
  std::optional<Recording> recording;
  std::uint64_t* random = nullptr;  // {seed, offset} in device memory
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
};

namespace {
Device this_device() { return {DeviceType::cuda, static_cast<std::int8_t>(current_device())}; }
}  // namespace

Graph* make_graph() { return new Graph; }
void destroy_graph(Graph* g) noexcept { delete g; }

void begin_recording(Graph* g, std::uint64_t random_seed, std::uint64_t random_offset) {
  wait_for_stream();  // a mirror with all slots busy drops a request, and a captured one would be lost for good
  // Frees the cached memory of the eager run of the step: the capture needs as much again in its arena.
  cuda_backend::empty_cache(this_device());
  if (!g->random) {
    const CaptureRelaxed relaxed;
    check_status(cudaMalloc(reinterpret_cast<void**>(&g->random), 2 * sizeof(std::uint64_t)),
                 "allocating a graph's random position");
  }
  g->recording.emplace(g->arena);
  g->uses.begin();
  check_status(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal), "starting to capture");
  set_random_state(g->random, random_seed, random_offset);
}

void end_recording(Graph* g) {
  set_random_state(nullptr, 0, 0);
  const cudaError_t ended = cudaStreamEndCapture(stream(), &g->graph);
  g->recording.reset();
  g->uses.end(g->arena);
  check_status(ended, "capturing a step: something in it waited for the device or used another stream");
  check_status(cudaGraphInstantiate(&g->executable, g->graph, 0), "making a captured step ready");
}

void give_up_recording(Graph* g) noexcept {
  set_random_state(nullptr, 0, 0);
  if (g->recording) {  // it has not ended
    cudaGraph_t unfinished = nullptr;
    if (cudaStreamEndCapture(stream(), &unfinished) == cudaSuccess && unfinished) (void)cudaGraphDestroy(unfinished);
    g->recording.reset();
    g->uses.end(g->arena);
  }
  // Gradients that the step seemed to compute have not been computed: of what the user keeps, they are zeros.
  g->arena.fill_with_zeros();
  (void)cudaGetLastError();
}

void replay(Graph* g, std::span<const GraphInput> inputs, std::uint64_t random_seed, std::uint64_t random_offset) {
  place_inputs(inputs, g->random, random_seed, random_offset);
  check_status(cudaGraphLaunch(g->executable, stream()), "replaying a captured step");
}

bool is_outdated(const Graph* g) { return g->uses.is_outdated(); }
std::size_t graph_bytes(Graph* g) { return static_cast<std::size_t>(g->arena.stats().reserved); }

}  // namespace mantissa::cuda_backend
