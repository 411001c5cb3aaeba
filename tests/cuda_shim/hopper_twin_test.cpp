// The twins of Hopper's instructions (hopper*.cpp, tensor_map.cpp): a small product by TMA and wgmma is right in every
// order of threads and arrivals, and each mistake planted in it is found: refused with a message, or seen in the
// result.
#include <cmath>
#include <vector>

#include <cuda.h>

#include "amp/kernels/hopper.cuh"
#include "amp/kernels/hopper_layout.h"
#include "tests/cuda_shim/planted.h"
#include "tests/cuda_shim/tensor_map.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::cuda_backend;
using cuda_shim::Asynchrony;
using cuda_shim::Order;

namespace {

enum class Slip {
  none, wrong_parity, no_full_wait, few_bytes, many_bytes, no_expect, tile_off_128, tile_off_16, no_product_wait,
  no_commit, no_fence, lane_differs, warp_differs, warp_missing, lane_missing, early_release, one_warp_releases,
  register_written, no_swizzle, forbidden_bits, init_twice, no_init_fence, no_init, extra_arrival,
  barrier_overwritten, no_map, copy_left, far_operand,
};

constexpr int ring = 2, rows = 64, columns = 128;
struct Stage {
  alignas(1024) std::uint16_t a[rows * 64], b[columns * 64];
};
struct Shared {
  Stage stages[ring];
  alignas(1024) std::uint64_t full[ring], empty[ring];
};

// y [64, 128] = a [64, 64 * steps] @ b [128, 64 * steps]^T: the first warpgroup copies, the second multiplies.
__global__ void small_product_kernel(float* y, int steps, Slip slip, const CUtensorMap map_a, const CUtensorMap map_b) {
  wait_for_previous_kernel();
  MANTISSA_SHARED(char, dynamic);
  char* base = reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(dynamic) + 1023) & ~std::uintptr_t{1023});
  if (slip == Slip::tile_off_128) base += 128;
  if (slip == Slip::tile_off_16) base += 16;
  const auto a = [&](int s) { return reinterpret_cast<std::uint16_t*>(base + s * static_cast<int>(sizeof(Stage))); };
  const auto b = [&](int s) { return a(s) + rows * 64; };
  auto* full = reinterpret_cast<std::uint64_t*>(base + ring * sizeof(Stage));
  std::uint64_t* empty = full + ring;
  const int thread = static_cast<int>(threadIdx.x) % 128, warp = thread / 32, lane = thread % 32;
  if (threadIdx.x == 0 && slip != Slip::no_init) {
    for (int s = 0; s < ring; ++s) {
      hopper::barrier_init(&full[s], 1);
      hopper::barrier_init(&empty[s], slip == Slip::one_warp_releases ? 1 : 4);
    }
    if (slip == Slip::init_twice) hopper::barrier_init(&full[0], 1);
    if (slip != Slip::no_init_fence) hopper::barrier_init_done();
    if (slip == Slip::barrier_overwritten) full[1] = 0;
  }
  __syncthreads();
  int stage = 0, phase = 0;
  if (threadIdx.x < 128) {
    hopper::give_registers<40>();
    if (thread != 0) return;
    for (int step = 0; step < steps; ++step) {
      hopper::barrier_wait(&empty[stage], phase ^ 1);
      constexpr int bytes = (rows + columns) * 128;
      if (slip == Slip::no_expect) hopper::barrier_arrive(&full[stage]);
      else
        hopper::barrier_expect(&full[stage], slip == Slip::few_bytes    ? rows * 128
                                             : slip == Slip::many_bytes ? bytes + 16
                                                                        : bytes);
      hopper::copy_box(a(stage), slip == Slip::no_map ? static_cast<const void*>(base) : &map_a, &full[stage],
                       64 * step, 0, 0);
      hopper::copy_box(b(stage), &map_b, &full[stage], 64 * step, 0, 0);
      if (slip == Slip::extra_arrival) hopper::barrier_arrive(&full[stage]);
      if (++stage == ring) stage = 0, phase ^= 1;
    }
    if (slip == Slip::copy_left) {
      const int last = steps - 1;
      hopper::barrier_wait(&empty[last % ring], last / ring % 2);
      hopper::copy_box(a(stage), &map_a, &full[stage], 0, 0, 0);
    }
    return;
  }
  hopper::give_registers<232>();
  float d[columns / 2];
  for (int step = 0; step < steps; ++step) {
    if (slip != Slip::no_full_wait) hopper::barrier_wait(&full[stage], slip == Slip::wrong_parity ? phase ^ 1 : phase);
    if (slip != Slip::no_fence) hopper::wgmma_begin();
    for (int k = 0; k < 64; k += 16) {
      if (slip == Slip::warp_missing && warp == 3) break;
      const bool other = (slip == Slip::lane_differs && thread == 37) || (slip == Slip::warp_differs && warp == 2);
      const auto address =
          hopper::shared_address(a(stage) + hopper::operand_offset<false>(0, other ? (k + 16) % 64 : k));
      std::uint64_t of_a = hopper::descriptor<false>(slip == Slip::far_operand ? address + 100 * 1024 : address);
      if (slip == Slip::no_swizzle) of_a &= ~(std::uint64_t{3} << 62);
      if (slip == Slip::forbidden_bits) of_a |= std::uint64_t{1} << 60;
      hopper::Wgmma<Half, columns, false, false>::run(
          d, of_a,
          hopper::descriptor<false>(hopper::shared_address(b(stage) + hopper::operand_offset<false>(0, k))),
          step > 0 || k > 0);
    }
    if (slip == Slip::register_written) d[3] = 1;
    if (slip != Slip::no_commit && !(slip == Slip::lane_missing && lane == 7)) hopper::wgmma_commit();
    if (slip == Slip::early_release && lane == 0) hopper::barrier_arrive(&empty[stage]);
    if (slip != Slip::no_product_wait) hopper::wgmma_wait<0>();
    if (slip == Slip::one_warp_releases ? thread == 0 : slip != Slip::early_release && lane == 0)
      hopper::barrier_arrive(&empty[stage]);
    if (++stage == ring) stage = 0, phase ^= 1;
  }
  for (int i = 0; i < columns / 2; ++i) {
    y[(16 * warp + lane / 4 + 8 * (i / 2 % 2)) * columns + 8 * (i / 4) + lane % 4 * 2 + i % 2] = d[i];
  }
}

enum class PairSlip {
  none, block_sync, own_release, no_last_wait, half_bytes, copies_to_itself, no_such_block, no_such_target,
};
// Two blocks: y [2 * 64, 128] = a [2 * 64, 64 * steps] @ b [128, 64 * steps]^T. Each copies its rows of a, and half of
// b to both.
__global__ void pair_product_kernel(float* y, int steps, PairSlip slip, const CUtensorMap map_a,
                                    const CUtensorMap map_b) {
  wait_for_previous_kernel();
  MANTISSA_SHARED(char, dynamic);
  auto* base = reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(dynamic) + 1023) & ~std::uintptr_t{1023});
  auto& shared = *reinterpret_cast<Shared*>(base);
  const int thread = static_cast<int>(threadIdx.x) % 128, warp = thread / 32, lane = thread % 32;
  const auto block = static_cast<int>(hopper::block_in_cluster());
  if (threadIdx.x == 0) {
    for (int s = 0; s < ring; ++s) {
      hopper::barrier_init(&shared.full[s], 1);
      hopper::barrier_init(&shared.empty[s], slip == PairSlip::own_release ? 4 : 8);
    }
    hopper::barrier_init_done();
  }
  if (slip == PairSlip::block_sync) __syncthreads();
  else hopper::cluster_sync();
  int stage = 0, phase = 0;
  const auto next = [&] { if (++stage == ring) stage = 0, phase ^= 1; };
  if (threadIdx.x < 128) {
    if (thread != 0) return;
    constexpr int half = columns / 2;
    const unsigned to = slip == PairSlip::no_such_target ? 7 : slip == PairSlip::copies_to_itself ? 1u << block : 3;
    for (int step = 0; step < steps; ++step, next()) {
      hopper::barrier_wait(&shared.empty[stage], phase ^ 1);
      hopper::barrier_expect(&shared.full[stage], (rows + (slip == PairSlip::half_bytes ? half : columns)) * 128);
      hopper::copy_box(shared.stages[stage].a, &map_a, &shared.full[stage], 64 * step, rows * block, 0);
      hopper::copy_box_to_blocks(to, shared.stages[stage].b + half * block * 64, &map_b, &shared.full[stage],
                                 64 * step, half * block, 0);
    }
    for (int s = 0; s < ring && slip != PairSlip::no_last_wait; ++s, next())
      hopper::barrier_wait(&shared.empty[stage], phase ^ 1);
    return;
  }
  float d[columns / 2];
  for (int step = 0; step < steps; ++step, next()) {
    hopper::barrier_wait(&shared.full[stage], phase);
    hopper::wgmma_begin();
    for (int k = 0; k < 64; k += 16) {
      const auto at = [&](const std::uint16_t* tile) {
        return hopper::descriptor<false>(hopper::shared_address(tile + hopper::operand_offset<false>(0, k)));
      };
      hopper::Wgmma<Half, columns, false, false>::run(d, at(shared.stages[stage].a), at(shared.stages[stage].b),
                                                      step > 0 || k > 0);
    }
    hopper::wgmma_commit();
    hopper::wgmma_wait<0>();
    if (slip == PairSlip::own_release) {
      if (lane == 0) hopper::barrier_arrive(&shared.empty[stage]);
    } else if (lane < 2) {
      hopper::barrier_arrive_in(&shared.empty[stage], slip == PairSlip::no_such_block ? lane + 1 : lane);
    }
  }
  for (int i = 0; i < columns / 2; ++i) {
    const int row = rows * block + 16 * warp + lane / 4 + 8 * (i / 2 % 2);
    y[row * columns + 8 * (i / 4) + lane % 4 * 2 + i % 2] = d[i];
  }
}

enum class StoreSlip { none, not_shown, no_barrier, not_waited_for, not_committed, refilled, no_swizzle, odd_place };
// y [2 * 64, 64] in halves: in each element its number, modulo 2039. Two boxes leave one after the other from the same
// place.
__global__ void store_kernel(StoreSlip slip, const CUtensorMap map) {
  wait_for_previous_kernel();
  MANTISSA_SHARED(char, dynamic);
  auto* base = reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(dynamic) + 1023) & ~std::uintptr_t{1023});
  auto* place = reinterpret_cast<std::uint16_t*>(base + (slip == StoreSlip::odd_place ? 64 : 0));
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32, row = 16 * warp + lane % 16;
  for (int box = 0; box < 2; ++box) {
    if (thread == 0 && slip != StoreSlip::refilled) hopper::copies_out_wait<0>();
    hopper::warpgroup_sync(1);
    for (int j = 0; j < 8; j += 2) {
      std::uint32_t v[4];
      for (int i = 0; i < 4; ++i) {
        const int number = (64 * box + 16 * warp + lane / 4 + 8 * (i % 2)) * 64 + 8 * (j + i / 2) + lane % 4 * 2;
        v[i] = hopper::pack<Half>(static_cast<float>(number % 2039), static_cast<float>((number + 1) % 2039));
      }
      const int chunk = j + lane / 16;
      hopper::store_matrices(place + row * 64 + (slip == StoreSlip::no_swizzle ? chunk : chunk ^ row % 8) * 8, v);
    }
    if (slip != StoreSlip::not_shown || warp != 2) hopper::show_stores();
    if (slip != StoreSlip::no_barrier) hopper::warpgroup_sync(1);
    if (thread == 0) {
      hopper::copy_box_out(&map, place, 0, 64 * box, 0);
      if (slip != StoreSlip::not_committed) hopper::copies_out_commit();
    }
  }
  if (thread == 0 && slip != StoreSlip::not_waited_for) hopper::copies_out_wait<0>();
}

enum class RegisterSlip { none, odd_number, too_many, more_by_dec, warp_missing };
__global__ void registers_kernel(RegisterSlip slip) {
  wait_for_previous_kernel();
  const unsigned warp = threadIdx.x / 32;
  if (slip == RegisterSlip::odd_number) cuda_shim::set_registers(100, false);
  if (slip == RegisterSlip::more_by_dec) cuda_shim::set_registers(256, false);
  if (slip == RegisterSlip::warp_missing && warp == 5) return;
  if (warp < 4) hopper::give_registers<88>();
  else if (slip == RegisterSlip::too_many) hopper::take_registers<256>();
  else hopper::take_registers<208>();  // 168 at first; each of 256 threads takes half of what each of 128 gave
}
__global__ void named_barrier_kernel(int* y, bool missing) {
  wait_for_previous_kernel();
  __shared__ int value[256];
  value[threadIdx.x] = static_cast<int>(threadIdx.x);
  const unsigned group = threadIdx.x / 128;
  if (!missing || threadIdx.x / 32 != 5) hopper::warpgroup_sync(1 + static_cast<int>(group));
  y[threadIdx.x] = value[group * 128 + 127 - threadIdx.x % 128];
}
enum class BarrierSlip { none, parity_two, missed_phase, no_arrivals, too_many_bytes, odd_place };
__global__ void barrier_kernel(BarrierSlip slip) {
  wait_for_previous_kernel();
  MANTISSA_SHARED(char, s);
  auto* barrier = reinterpret_cast<std::uint64_t*>(s + (slip == BarrierSlip::odd_place ? 4 : 0));
  if (threadIdx.x == 0) hopper::barrier_init(barrier, slip == BarrierSlip::no_arrivals ? 0 : 1);
  __syncthreads();
  if (threadIdx.x == 63) hopper::barrier_wait(barrier, slip == BarrierSlip::parity_two ? 2 : 0);
  if (threadIdx.x == 0) hopper::barrier_expect(barrier, slip == BarrierSlip::too_many_bytes ? 1 << 20 : 0);
  if (threadIdx.x == 0 && slip == BarrierSlip::missed_phase) hopper::barrier_arrive(barrier);
}
__global__ void behind_kernel(int bytes) {
  wait_for_previous_kernel();
  MANTISSA_SHARED(char, s);
  s[bytes] = 1;
}

using Encode = decltype(&cuda_shim::encode_tiled);
Encode find_encode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  REQUIRE(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found) ==
          cudaSuccess);
  REQUIRE(found == cudaDriverEntryPointSuccess);
  return reinterpret_cast<Encode>(function);
}

// What a test varies of a map for a matrix of 64 columns boxes.
struct MapOf {
  void* address = nullptr;
  cuuint64_t sizes[3] = {64, 64, 1}, strides[2] = {128, 8192};
  cuuint32_t rank = 3, box[3] = {64, 64, 1}, steps[3] = {1, 1, 1};
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  CUtensorMapFloatOOBfill fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;

  CUresult encode(CUtensorMap* map) const {
    return find_encode()(map, type, rank, address, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                         CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, fill);
  }
};

// The kernel on small numbers, whose products are exact.
struct Outcome {
  std::string message;
  int wrong = 0;
};
// y [blocks * rows, columns], a copied in boxes of `rows` rows and b in boxes of `box`, by what `run` launches.
template <class F> Outcome multiply_by(int blocks, int steps, int box, F&& run) {
  const std::int64_t k = 64 * steps, m = blocks * rows;
  std::vector<float> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(columns * k));
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i * 7919 % 7) - 3;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i * 104729 % 11) - 5;
  const Tensor ta = from_data<float>(a, {m, k}), tb = from_data<float>(b, {columns, k});
  const Tensor da = cast(ta, f16).to(cuda), db = cast(tb, f16).to(cuda), y = zeros({m, columns}, {.device = cuda});
  CUtensorMap map_a, map_b;
  const auto size = static_cast<cuuint64_t>(k), height = static_cast<cuuint64_t>(m);
  REQUIRE(MapOf{.address = da.raw_data(), .sizes = {size, height, 1}, .strides = {size * 2, size * 2 * height}}.encode(
              &map_a) == CUDA_SUCCESS);
  REQUIRE(MapOf{.address = db.raw_data(), .sizes = {size, columns, 1}, .strides = {size * 2, size * 2 * columns},
                .box = {64, static_cast<cuuint32_t>(box), 1}}
              .encode(&map_b) == CUDA_SUCCESS);
  Outcome outcome;
  outcome.message = message_of_run([&] { run(y.data<float>(), map_a, map_b); });
  if (!outcome.message.empty()) return outcome;
  const std::vector<float> got = y.to(cpu).to_vector<float>(), want = matmul(ta, transpose(tb)).to_vector<float>();
  for (std::size_t i = 0; i < got.size(); ++i) outcome.wrong += !(got[i] == want[i]);
  return outcome;
}
Outcome multiply(Slip slip, int steps = 5) {
  return multiply_by(1, steps, columns, [&](float* y, const CUtensorMap& map_a, const CUtensorMap& map_b) {
    launch("small_product", &small_product_kernel, {1, 256, sizeof(Shared) + 2048}, y, steps, slip, map_a, map_b);
  });
}
Outcome multiply_by_pair(PairSlip slip, int steps = 5) {
  return multiply_by(2, steps, columns / 2, [&](float* y, const CUtensorMap& map_a, const CUtensorMap& map_b) {
    launch("pair_product", &pair_product_kernel, {2, 256, sizeof(Shared) + 2048, 2}, y, steps, slip, map_a, map_b);
  });
}
Outcome store(StoreSlip slip) {
  const Tensor y = zeros({120, 56}, {.dtype = f16, .device = cuda});  // boxes reach out of it
  CUtensorMap map;
  REQUIRE(MapOf{.address = y.raw_data(), .sizes = {56, 120, 1}, .strides = {112, 112 * 120}}.encode(&map) ==
          CUDA_SUCCESS);
  Outcome outcome;
  outcome.message = message_of_run([&] { launch("store", &store_kernel, {1, 128, 64 * 64 * 2 + 1024}, slip, map); });
  if (!outcome.message.empty()) return outcome;
  const std::vector<float> got = cast(y.to(cpu), f32).to_vector<float>();
  for (int i = 0; i < 120 * 56; ++i)
    outcome.wrong += got[static_cast<std::size_t>(i)] != static_cast<float>((i / 56 * 64 + i % 56) % 2039);
  return outcome;
}
void usual() {
  cuda_shim::set_order(Order::forward);
  cuda_shim::set_asynchrony(Asynchrony::late);
}
// Whether a mistake shows in one of `seeds` random orders, late.
template <class F> [[maybe_unused]] bool shows_in_some_order(F&& run, unsigned seeds) {
  bool shown = false;
  for (unsigned seed = 1; seed <= seeds && !shown; ++seed) {
    cuda_shim::set_order(Order::random, seed);
    const Outcome o = run();
    shown = o.wrong > 0 || !o.message.empty();
  }
  usual();
  return shown;
}

}  // namespace

TEST_CASE("a product by TMA and wgmma is right in every order of threads and arrivals") {
  for (const Order order : {Order::forward, Order::reverse, Order::random}) {
    for (const Asynchrony when : {Asynchrony::late, Asynchrony::early, Asynchrony::random}) {
      for (unsigned seed = 1; seed <= (order == Order::random ? 5u : 1u); ++seed) {
        cuda_shim::set_order(order, seed);
        cuda_shim::set_asynchrony(when);
        for (const Outcome& o : {multiply(Slip::none, 8), multiply_by_pair(PairSlip::none, 8)}) {
          CHECK(o.message == "");
          CHECK(o.wrong == 0);
        }
      }
    }
  }
  usual();
}

TEST_CASE("mistakes in the use of wgmma, TMA and mbarrier are refused, and the message says what") {
  const auto refused = [](Slip slip, const char* what) {
    const Outcome o = multiply(slip);
    CHECK_THAT(o.message, Catch::Matchers::Contains(what));
  };
  refused(Slip::tile_off_128, "does not begin on 1024 bytes");
  refused(Slip::tile_off_16, "misaligned address");
  refused(Slip::no_product_wait, "a block ends while products are under way");
  refused(Slip::no_commit, "a block ends while products are under way");
  refused(Slip::no_fence, "without wgmma.fence");
  refused(Slip::lane_differs, "the lanes of a warp give an instruction different operands");
  refused(Slip::warp_differs, "the warps of a warpgroup execute different wgmma");
  refused(Slip::warp_missing, "not all warps of a warpgroup executed the same wgmma");
  refused(Slip::lane_missing, "lanes of one warp meet in different operations");
  refused(Slip::register_written, "registers of a product under way were written");
  refused(Slip::no_swizzle, "without the 128-byte swizzle");
  refused(Slip::forbidden_bits, "bits that must be zero");
  refused(Slip::init_twice, "is initialised while in use");
  refused(Slip::no_init_fence, "without fence.mbarrier_init");
  refused(Slip::no_init, "was not initialised");
  refused(Slip::barrier_overwritten, "was written over");
  refused(Slip::extra_arrival, "an arrival too many at the mbarrier at shared address");
  refused(Slip::no_map, "not a tensor map");
  refused(Slip::copy_left, "a block ends while copies into its shared memory are under way");
  refused(Slip::far_operand, "beyond dynamic shared memory: an operand of wgmma");
  // Copies that nobody waits for long enough.
  refused(Slip::many_bytes, "deadlock in block (0, 0, 0)");
  refused(Slip::many_bytes, "threads 128-255 wait for the mbarrier at shared address");
  refused(Slip::many_bytes, "0 of 1 arrivals and 16 bytes are missing");
}

#if !defined(__SANITIZE_THREAD__)  // which reports these races itself and ends the test
TEST_CASE("what is read too early shows in the result, or breaks the barriers") {
  for (const Slip slip : {Slip::wrong_parity, Slip::no_full_wait, Slip::few_bytes, Slip::no_expect}) {
    const Outcome o = multiply(slip);
    INFO(static_cast<int>(slip) << o.message);
    CHECK((o.wrong > 0 || !o.message.empty()));
  }
}

TEST_CASE("a stage that is given back before all four warps have read it is written over in some order") {
  const auto with = [](Slip slip) { return [slip] { return multiply(slip, 8); }; };
  CHECK(shows_in_some_order(with(Slip::early_release), 20));
  CHECK(shows_in_some_order(with(Slip::one_warp_releases), 50));
  CHECK(!shows_in_some_order(with(Slip::none), 50));
}

TEST_CASE("a stage that one block of a cluster gives back alone is written over by the other in some order") {
  const auto with = [](PairSlip slip) { return [slip] { return multiply_by_pair(slip, 8); }; };
  CHECK(shows_in_some_order(with(PairSlip::own_release), 20));
  CHECK(shows_in_some_order(with(PairSlip::half_bytes), 20));
  CHECK(!shows_in_some_order(with(PairSlip::none), 50));
}
#endif

#if !defined(__SANITIZE_THREAD__)  // which keeps every thread of a kernel that failed, until they are too many
TEST_CASE("mistakes between the blocks of a cluster are refused, or seen in some order") {
  const auto with = [](PairSlip slip) { return multiply_by_pair(slip).message; };
  CHECK_THAT(with(PairSlip::no_such_block), Catch::Matchers::Contains("there is no block 2 in the cluster"));
  CHECK_THAT(with(PairSlip::no_such_target), Catch::Matchers::Contains("blocks that the cluster does not have"));
  const std::string alone = with(PairSlip::copies_to_itself);
  CHECK_THAT(alone, Catch::Matchers::Contains("deadlock in block"));
  CHECK_THAT(alone, Catch::Matchers::Contains("of block 1 of the cluster"));
  // A block copies to another one that has not made its barriers yet, or says something to one that has ended.
  CHECK(shows_in_some_order([] { return multiply_by_pair(PairSlip::block_sync); }, 20));
  CHECK(shows_in_some_order([] { return multiply_by_pair(PairSlip::no_last_wait); }, 20));
  const std::string odd = message_of_launch({3, 256, 1024, 2}, &behind_kernel, 0);
  CHECK_THAT(odd, Catch::Matchers::Contains("3 blocks in clusters of 2"));
}
#endif

TEST_CASE("results leave by stmatrix and TMA in every order, and mistakes are refused or seen") {
  for (const Asynchrony when : {Asynchrony::late, Asynchrony::early, Asynchrony::random}) {
    for (unsigned seed = 1; seed <= 5; ++seed) {
      cuda_shim::set_order(Order::random, seed);
      cuda_shim::set_asynchrony(when);
      const Outcome o = store(StoreSlip::none);
      CHECK(o.message == "");
      CHECK(o.wrong == 0);
    }
  }
  usual();
  CHECK_THAT(store(StoreSlip::not_shown).message,
             Catch::Matchers::Contains("thread 64 has stored and not shown by fence.proxy.async"));
  const auto left = Catch::Matchers::Contains("a block ends while copies out of its shared memory are under way");
  CHECK_THAT(store(StoreSlip::not_waited_for).message, left);
  CHECK_THAT(store(StoreSlip::not_committed).message, left);
  CHECK_THAT(store(StoreSlip::odd_place).message, Catch::Matchers::Contains("misaligned address"));
  CHECK(store(StoreSlip::no_swizzle).wrong > 0);
#if !defined(__SANITIZE_THREAD__)  // races
  CHECK(store(StoreSlip::refilled).wrong > 0);
  CHECK(shows_in_some_order([] { return store(StoreSlip::no_barrier); }, 20));
#endif
}

TEST_CASE("mbarriers: parities, counts and places") {
  const auto with = [](BarrierSlip slip) {
    cuda_shim::set_order(Order::reverse);  // who waits comes before who arrives
    const std::string message = message_of_launch({1, 64, 64}, &barrier_kernel, slip);
    usual();
    return message;
  };
  CHECK(with(BarrierSlip::none) == "");
  CHECK_THAT(with(BarrierSlip::parity_two), Catch::Matchers::Contains("phases of parity 0 and 1, not 2"));
  CHECK_THAT(with(BarrierSlip::missed_phase), Catch::Matchers::Contains("missed a phase: two have passed"));
  CHECK_THAT(with(BarrierSlip::no_arrivals), Catch::Matchers::Contains("an mbarrier of 0 arrivals"));
  CHECK_THAT(with(BarrierSlip::too_many_bytes), Catch::Matchers::Contains("cannot expect 1048576 more bytes"));
  CHECK_THAT(with(BarrierSlip::odd_place), Catch::Matchers::Contains("an mbarrier, which needs 8 bytes"));
#if !defined(__SANITIZE_THREAD__)
  CHECK(multiply(Slip::few_bytes).message != "");
#endif
}

TEST_CASE("setmaxnreg: what a block has at its launch, and no more") {
  const auto with = [](RegisterSlip slip) { return message_of_launch({1, 384}, &registers_kernel, slip); };
  CHECK(with(RegisterSlip::none) == "");
  CHECK_THAT(with(RegisterSlip::odd_number), Catch::Matchers::Contains("takes a multiple of 8 from 24 to 256"));
  CHECK_THAT(with(RegisterSlip::more_by_dec), Catch::Matchers::Contains("setmaxnreg.dec from 168 to 256"));
  CHECK_THAT(with(RegisterSlip::too_many), Catch::Matchers::Contains("wait for 256 registers instead of 168"));
  CHECK_THAT(with(RegisterSlip::warp_missing),
             Catch::Matchers::Contains("not all warps of a warpgroup executed the same"));
}

TEST_CASE("a named barrier waits for its own threads, and says who is missing") {
  const Tensor y = zeros({256}, {.dtype = i32, .device = cuda});
  for (const Order order : {Order::forward, Order::reverse, Order::random}) {
    cuda_shim::set_order(order, 3);
    CHECK(message_of_launch({1, 256}, &named_barrier_kernel, y.data<int>(), false) == "");
    CHECK(y.to(cpu).to_vector<int>()[130] == 253);
  }
  usual();
#if !defined(__SANITIZE_THREAD__)  // a race
  CHECK_THAT(
      message_of_launch({1, 256}, &named_barrier_kernel, y.data<int>(), true),
      Catch::Matchers::Contains("threads 128-159, 192-255 wait for named barrier 2: 96 of 128 threads are there"));
#endif
}

TEST_CASE("dynamic shared memory is aligned to 16 bytes and no more, and what is written behind it is seen") {
  for (const int bytes : {16, 48, 1024, 4096}) {
    CHECK(message_of_launch({1, 1, static_cast<std::size_t>(bytes)}, &behind_kernel, bytes - 1) == "");
  }
  CHECK_THAT(message_of_launch({1, 1, 1024}, &behind_kernel, 1024),
             Catch::Matchers::Contains("wrote behind its dynamic shared memory"));
}

TEST_CASE("a tensor map is refused where the driver refuses it") {
  const Tensor t = zeros({64, 64}, {.dtype = f16, .device = cuda});
  char* p = static_cast<char*>(t.raw_data());
  struct { CUtensorMap map, next; } at;
  CHECK(MapOf{.address = p}.encode(&at.map) == CUDA_SUCCESS);
  const auto refused = [&](const MapOf& m) { CHECK(m.encode(&at.map) == CUDA_ERROR_INVALID_VALUE); };
  refused({.address = p + 8});
  refused({.address = nullptr});
  refused({.address = p, .sizes = {0, 64, 1}});
  refused({.address = p, .sizes = {64, (cuuint64_t{1} << 32) + 1, 1}});
  refused({.address = p, .strides = {136, 8192}});
  refused({.address = p, .strides = {128, cuuint64_t{1} << 40}});
  refused({.address = p, .strides = {128, 32}});  // a matrix each 32 bytes, of 64 rows
  refused({.address = p, .rank = 0});
  refused({.address = p, .rank = 6});
  refused({.address = p, .box = {64, 257, 1}});
  refused({.address = p, .box = {64, 0, 1}});
  refused({.address = p, .box = {72, 64, 1}});    // 144 bytes in a swizzle of 128
  refused({.address = p, .box = {4, 64, 1}});     // 8 bytes
  refused({.address = p, .steps = {1, 9, 1}});
  refused(
      {.address = p, .type = CU_TENSOR_MAP_DATA_TYPE_INT32, .fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA});
  CHECK(MapOf{.address = p}.encode(reinterpret_cast<CUtensorMap*>(reinterpret_cast<char*>(&at.map) + 16)) ==
        CUDA_ERROR_INVALID_VALUE);
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  REQUIRE(cudaGetDriverEntryPointByVersion("cuNoSuchThing", &function, 12000, cudaEnableDefault, &found) ==
          cudaSuccess);
  CHECK((found == cudaDriverEntryPointSymbolNotFound && function == nullptr));
}
