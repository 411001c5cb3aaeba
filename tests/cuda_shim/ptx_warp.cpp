// Instructions that threads execute together, and those of Hopper: votes and shuffles, barriers, matrix products,
// copies by TMA. All go to the counterparts that kernels compiled by the C++ compiler call (hopper.h, cuda/ptx.cuh).
#include <cuda_runtime.h>

#include <algorithm>

#include "amp/kernels/hopper.cuh"
#include "cuda/ptx.cuh"
#include "tests/cuda_shim/hopper.h"
#include "tests/cuda_shim/ptx_counts.h"
#include "tests/cuda_shim/ptx_parts.h"

namespace cuda_shim::ptx {
namespace {

// Operands as slots: a list of all, in order, with addresses by their bases (which must have no offset).
std::vector<Slot> all_slots(const Statement& s) {
  std::vector<Slot> slots;
  for (const Operand& o : s.operands) {
    if (o.offset != 0) fail_unknown(s);
    if (o.kind != Operand::Kind::list) slots.push_back(o.slot);
    slots.insert(slots.end(), o.list.begin(), o.list.end());
  }
  return slots;
}
char* shared(Frame& f, Slot s, std::size_t bytes, const char* what) {
  return shared_at(own_block(), get<std::uint32_t>(f, s), bytes, what);
}
std::uint64_t* barrier(Frame& f, Slot s) { return reinterpret_cast<std::uint64_t*>(shared(f, s, 8, "a barrier")); }
// The address of a row of ldmatrix or stmatrix.
char* row(Frame& f, const Instruction& at, Slot s, const char* what) {
  if (counting) count_access(&at, Access::shared, get<std::uint32_t>(f, s), 16);
  return shared(f, s, 16, what);
}
int integer(Frame& f, Slot s) { return get<std::int32_t>(f, s); }

// shfl.sync.MODE.b32 d|p, a, b, c, mask: c has the last lane (or for "up" the first) and which bits of a lane's number
// stay in its segment.
template <char mode> void shuffle(Frame& f, const Instruction& at) {
  const auto b = get<std::uint32_t>(f, at.b) & 31, c = get<std::uint32_t>(f, at.c);
  const unsigned me = lane(), segment = c >> 8 & 31, clamp = c & 31;
  const unsigned last = (me & segment) | (clamp & ~segment), first = me & segment;
  int from = 0;
  bool inside = false;
  if (mode == 'u') from = static_cast<int>(me - b), inside = from >= static_cast<int>(last);
  if (mode == 'd') from = static_cast<int>(me + b), inside = from <= static_cast<int>(last);
  if (mode == 'b') from = static_cast<int>(me ^ b), inside = from <= static_cast<int>(last);
  if (mode == 'i') from = static_cast<int>(first | (b & ~segment)), inside = from <= static_cast<int>(last);
  const auto mask = get<std::uint32_t>(f, at.list[0]);
  const auto v = warp_shuffle(mask, get<std::uint32_t>(f, at.a), inside ? from : static_cast<int>(me));
  set(f, at.d, static_cast<std::uint32_t>(v));
  set(f, at.list[1], static_cast<std::uint8_t>(inside));
}
void decode_shuffle(const Statement& s, Instruction& i) {
  if (s.type() != "b32" || s.words.size() != 4) fail_unknown(s);
  i.d = s.slot(0), i.a = s.slot(1), i.b = s.slot(2), i.c = s.slot(3);
  i.list = {s.slot(4), s.operands[0].predicate};
  const std::string_view mode = s.words[2];
  if (mode == "up") i.step = &shuffle<'u'>;
  else if (mode == "down") i.step = &shuffle<'d'>;
  else if (mode == "bfly") i.step = &shuffle<'b'>;
  else if (mode == "idx") i.step = &shuffle<'i'>;
  else fail_unknown(s);
}

template <class T> void product(Frame& f, const Instruction& at) {  // d, a, b, c
  mantissa::ptx::Accumulator c;
  mantissa::ptx::FragmentA a;
  mantissa::ptx::FragmentB b;
  for (unsigned k = 0; k < 4; ++k)
    c.v[k] = get<float>(f, at.list[10 + k]), a.v[k] = get<std::uint32_t>(f, at.list[4 + k]);
  for (unsigned k = 0; k < 2; ++k) b.v[k] = get<std::uint32_t>(f, at.list[8 + k]);
  mantissa::ptx::mma<T>(c, a, b);
  for (unsigned k = 0; k < 4; ++k) set(f, at.list[k], c.v[k]);
}
template <bool transpose> void load_matrices(Frame& f, const Instruction& at) {
  std::uint32_t r[4];
  mantissa::ptx::load_matrices<transpose>(r, row(f, at, at.list[4], "ldmatrix"));
  for (unsigned k = 0; k < 4; ++k) set(f, at.list[k], r[k]);
}
void store_matrices(Frame& f, const Instruction& at) {
  std::uint32_t r[4];
  for (unsigned k = 0; k < 4; ++k) r[k] = get<std::uint32_t>(f, at.list[1 + k]);
  cuda_shim::store_matrices(row(f, at, at.list[0], "stmatrix"), r);
}

// Nothing may write a register that a product under way will write.
void check_untouched(const Frame& f, const Accumulators& sums) {
  for (const Slot s : sums.slots) {
    if (f.values[s] != ~std::uint64_t{0}) fail("a register of a product under way was written");
  }
}
// --- wgmma: {d}, a, b, whether to add, scales of a and b, whether they are transposed ---
template <bool bf16> void warpgroup_product(Frame& f, const Instruction& at) {
  const auto n = static_cast<std::size_t>(at.number);
  const std::vector<Slot> d(at.list.begin(), at.list.begin() + static_cast<std::ptrdiff_t>(n / 2));
  const auto operand = [&](std::size_t k) { return at.list[n / 2 + k]; };
  if (integer(f, operand(3)) != 1 || integer(f, operand(4)) != 1) fail("wgmma with a scale other than 1");
  const auto same = [&](const auto& known) { return known->slots == d; };
  auto known = std::ranges::find_if(f.accumulators, same);
  if (known == f.accumulators.end()) {
    auto fresh = std::make_unique<Accumulators>();
    fresh->slots = d;
    for (Slot s : d) {
      fresh->values.push_back(get<float>(f, s));
      f.values[s] = ~std::uint64_t{0};  // a NaN until it is waited for
    }
    known = f.accumulators.insert(f.accumulators.end(), std::move(fresh));
  }
  Accumulators& sums = **known;
  check_untouched(f, sums);
  sums.group = f.commits;
  wgmma({bf16, static_cast<int>(n), integer(f, operand(5)) != 0, integer(f, operand(6)) != 0,
         get<std::uint64_t>(f, operand(0)), get<std::uint64_t>(f, operand(1)), get<std::uint8_t>(f, operand(2)) != 0},
        sums.values.data());
}
void wait_for_products(Frame& f, const Instruction& at) {
  const auto pending = get<std::uint32_t>(f, at.list[0]);
  wgmma_wait(static_cast<int>(pending));
  std::erase_if(f.accumulators, [&](const auto& sums) {
    if (sums->group + pending >= f.commits) return false;
    check_untouched(f, *sums);
    for (std::size_t k = 0; k < sums->slots.size(); ++k) set(f, sums->slots[k], sums->values[k]);
    return true;
  });
}

// Instructions whose whole text is known, and which take their operands from `list`.
const std::map<std::string_view, Instruction::Step>& table() {
  static const std::map<std::string_view, Instruction::Step> all = {
      {"griddepcontrol.wait", [](Frame&, const Instruction&) { note_wait(); }},
      {"griddepcontrol.launch_dependents", [](Frame&, const Instruction&) {}},
      {"bar.warp.sync", [](Frame& f, const Instruction& at) { warp_barrier(get<std::uint32_t>(f, at.list[0])); }},
      {"vote.sync.ballot.b32",
       [](Frame& f, const Instruction& at) {
         set(f, at.list[0], warp_ballot(get<std::uint32_t>(f, at.list[2]), get<std::uint8_t>(f, at.list[1]) != 0));
       }},
      {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", &product<mantissa::Half>},
      {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", &product<mantissa::BFloat16>},
      {"ldmatrix.sync.aligned.m8n8.x4.shared.b16", &load_matrices<false>},
      {"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", &load_matrices<true>},
      {"stmatrix.sync.aligned.m8n8.x4.shared.b16", &store_matrices},
      {"fence.proxy.async.shared::cta", [](Frame&, const Instruction&) { show_stores(); }},
      {"fence.mbarrier_init.release.cluster", [](Frame&, const Instruction&) { barrier_init_done(); }},
      {"mbarrier.init.shared::cta.b64",
       [](Frame& f, const Instruction& at) { barrier_init(barrier(f, at.list[0]), integer(f, at.list[1])); }},
      {"mbarrier.arrive.shared::cta.b64",
       [](Frame& f, const Instruction& at) { barrier_arrive(barrier(f, at.list[1])); }},
      {"mbarrier.arrive.expect_tx.shared::cta.b64",
       [](Frame& f, const Instruction& at) { barrier_expect(barrier(f, at.list[1]), integer(f, at.list[2])); }},
      // It may wait until the phase is over, or give up before: then the kernel must ask again.
      {"mbarrier.try_wait.parity.shared::cta.b64",
       [](Frame& f, const Instruction& at) {
         if (draw(4) == 0) return set(f, at.list[0], std::uint8_t{0});
         barrier_wait(barrier(f, at.list[1]), integer(f, at.list[2]));
         set(f, at.list[0], std::uint8_t{1});
       }},
      {"mapa.shared::cluster.u32",
       [](Frame& f, const Instruction& at) {
         set(f, at.list[0], get<std::uint32_t>(f, at.list[1]) + cluster_address(integer(f, at.list[2])));
       }},
      {"mbarrier.arrive.shared::cluster.b64",
       [](Frame& f, const Instruction& at) {
         const auto address = get<std::uint32_t>(f, at.list[1]);
         constexpr std::uint32_t first = cluster_address(0);
         if (address < first) fail("an address that is not of a cluster");
         auto* own = reinterpret_cast<std::uint64_t*>(shared_at(own_block(), address % first, 8, "a barrier"));
         barrier_arrive_in(own, static_cast<int>(address / first) - 1);
       }},
      {"st.shared::cluster.v4.f32",
       [](Frame& f, const Instruction& at) {
         store_in(get<std::uint32_t>(f, at.list[0]), make_float4(get<float>(f, at.list[1]), get<float>(f, at.list[2]),
                                                                 get<float>(f, at.list[3]), get<float>(f, at.list[4])));
       }},
      {"st.release.gpu.u32",
       [](Frame& f, const Instruction& at) {
         if (integer(f, at.list[1]) != 1) fail("st.release of something else than a raised flag");
         raise_flag(get<unsigned*>(f, at.list[0]));
       }},
      {"ld.acquire.gpu.u32",
       [](Frame& f, const Instruction& at) {
         wait_for_flag(get<const unsigned*>(f, at.list[1]));
         set(f, at.list[0], std::uint32_t{1});
       }},
      {"cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes",  // [to], [map, {x, y, z}],
                                                                                       // [barrier]
       [](Frame& f, const Instruction& at) {
         copy_box(shared(f, at.list[0], 0, "cp.async.bulk"), get<const void*>(f, at.list[1]), barrier(f, at.list[5]),
                  integer(f, at.list[2]), integer(f, at.list[3]), integer(f, at.list[4]));
       }},
      {"cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster",
       [](Frame& f, const Instruction& at) {
         copy_box_to_blocks(get<std::uint16_t>(f, at.list[6]), shared(f, at.list[0], 0, "cp.async.bulk"),
                            get<const void*>(f, at.list[1]), barrier(f, at.list[5]), integer(f, at.list[2]),
                            integer(f, at.list[3]), integer(f, at.list[4]));
       }},
      {"cp.async.bulk.tensor.3d.global.shared::cta.bulk_group",  // [map, {x, y, z}], [from]
       [](Frame& f, const Instruction& at) {
         copy_box_out(get<const void*>(f, at.list[0]), shared(f, at.list[4], 0, "cp.async.bulk"),
                      integer(f, at.list[1]), integer(f, at.list[2]), integer(f, at.list[3]));
       }},
      {"cp.async.bulk.commit_group", [](Frame&, const Instruction&) { copies_out_commit(); }},
      {"cp.async.bulk.wait_group.read",
       [](Frame& f, const Instruction& at) { copies_out_wait(integer(f, at.list[0])); }},
      // Whoever arrives also waits, at once: the two stand together in cuda/.
      {"barrier.cluster.arrive.release.aligned", [](Frame&, const Instruction&) {}},
      {"barrier.cluster.wait.acquire.aligned", [](Frame&, const Instruction&) { cluster_sync(); }},
      {"setmaxnreg.dec.sync.aligned.u32",
       [](Frame& f, const Instruction& at) { set_registers(integer(f, at.list[0]), false); }},
      {"setmaxnreg.inc.sync.aligned.u32",
       [](Frame& f, const Instruction& at) { set_registers(integer(f, at.list[0]), true); }},
      {"wgmma.fence.sync.aligned", [](Frame&, const Instruction&) { wgmma_begin(); }},
      {"wgmma.commit_group.sync.aligned",
       [](Frame& f, const Instruction&) {
         ++f.commits;
         wgmma_commit();
       }},
      {"wgmma.wait_group.sync.aligned", &wait_for_products},
      {"wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16", &warpgroup_product<false>},
      {"wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16", &warpgroup_product<false>},
      {"wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16", &warpgroup_product<true>},
      {"wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16", &warpgroup_product<true>},
  };
  return all;
}

}  // namespace

bool decode_warp(const Statement& s, Instruction& i) {
  if (s.words[0] == "shfl") {
    decode_shuffle(s, i);
    return true;
  }
  if (s.text == "bar.sync" && s.operands.size() == 1 && s.operands[0].name == "0") {
    // nvcc may have copied one barrier of the source to several places: no line tells them apart.
    i.step = [](Frame&, const Instruction&) { block_barrier(0); };
    return true;
  }
  i.list = all_slots(s);
  if (s.text == "bar.sync" && s.operands.size() == 2) {
    i.step = [](Frame& f, const Instruction& at) { named_barrier(integer(f, at.list[0]), integer(f, at.list[1])); };
    return true;
  }
  if (s.text == "bar.red.or.pred" && s.operands.size() == 3 && s.operands[1].name == "0") {
    i.step = [](Frame& f, const Instruction& at) {
      set(f, at.list[0], __syncthreads_or(get<std::uint8_t>(f, at.list[2]) != 0) != 0 ? 1u : 0u);
    };
    return true;
  }
  const auto at = table().find(s.text);
  if (at == table().end()) return false;
  if (s.text.starts_with("wgmma.mma_async")) i.number = static_cast<std::int64_t>(2 * s.operands.at(0).list.size());
  i.step = at->second;
  return true;
}

}  // namespace cuda_shim::ptx
