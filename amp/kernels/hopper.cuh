// Hopper's instructions for matrix products: barriers in shared memory; bulk tensor copies (TMA) from global memory,
// also to all blocks of a cluster, and back; warpgroup products (wgmma) that read both operands from shared memory;
// what blocks say to each other.
// sm_90a only; each has a CPU shim counterpart (tests/cuda_shim/hopper.h). Guarantees for "executing threads" hold for
// a warp, not for its warpgroup.
// Source: PTX ISA, sections "mbarrier", "mapa", "st", "barrier.cluster", "cp.async.bulk.tensor", "stmatrix",
// "fence.proxy" and "Asynchronous warpgroup level matrix instructions".
#pragma once

#include <cstdint>

#include "core/half.h"
#include "cuda/ptx.cuh"

#if defined(MANTISSA_CUDA_SHIM)
#include <type_traits>

#include "tests/cuda_shim/hopper.h"
#endif

namespace mantissa::hopper {

#if !defined(MANTISSA_CUDA_SHIM)

using ptx::shared_address;

__device__ inline void barrier_init(std::uint64_t* b, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(shared_address(b)), "r"(arrivals));
}
// Makes initialized barriers visible to the copy engine.
__device__ inline void barrier_init_done() { asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory"); }
__device__ inline void barrier_arrive(std::uint64_t* b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(shared_address(b)) : "memory");
}
// Arrives, and makes the phase also wait for this many bytes of copies.
__device__ inline void barrier_expect(std::uint64_t* b, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(shared_address(b)), "r"(bytes)
               : "memory");
}
// Arrives at the same barrier of another block of the cluster, or of this one. It orders products before copies that
// overwrite their operands, but does not make this block's ordinary stores visible to the other block (.release.cluster
// would, but it waits for everything that the thread has written, by MEMBAR.ALL.GPU: too slow for a loop).
__device__ inline void barrier_arrive_in(std::uint64_t* b, int block) {
  asm volatile(
      "{\n.reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n}\n" ::"r"(shared_address(b)), "r"(block)
      : "memory");
}
// Waits for the end of the phase with this parity.
__device__ inline void barrier_wait(std::uint64_t* b, int parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra over;\n"
      "bra again;\n"
      "over:\n}\n" ::"r"(shared_address(b)), "r"(parity) : "memory");
}

// Copies the box at (x, y, z) of a tensor map into shared memory and counts its bytes on the barrier.
__device__ inline void copy_box(void* to, const void* map, std::uint64_t* barrier, int x, int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];\n" ::
          "r"(shared_address(to)), "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z) : "memory");
}

// The same to this address in each block of the cluster whose bit is set, counted on the same barrier there.
__device__ inline void copy_box_to_blocks(unsigned blocks, void* to, const void* map, std::uint64_t* barrier, int x,
                                          int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
      " [%0], [%1, {%3, %4, %5}], [%2], %6;\n" ::"r"(shared_address(to)), "l"(map), "r"(shared_address(barrier)),
      "r"(x), "r"(y), "r"(z), "h"(static_cast<unsigned short>(blocks)) : "memory");
}

// Storing results to global memory: pack, store_matrices, show_stores by every thread that stored, a barrier; then one
// thread starts the copies of boxes (clipped to the tensor), commits their group and, before the shared memory is
// reused or the block ends, waits until at most `pending` groups still read it. Two 16-bit values, `low` in the lower
// bits.
template <class T> __device__ inline std::uint32_t pack(float low, float high);
template <> __device__ inline std::uint32_t pack<Half>(float low, float high) {
  std::uint32_t both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;\n" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
template <> __device__ inline std::uint32_t pack<BFloat16>(float low, float high) {
  std::uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
// The inverse of ptx::load_matrices: lane 8*i + r gives the address of row r of matrix i, and register i of a lane
// holds elements (lane/4, 2*(lane%4)) and the next of matrix i.
__device__ inline void store_matrices(void* row, const std::uint32_t (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};\n" ::"r"(shared_address(row)),
               "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
}
__device__ inline void show_stores() { asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory"); }
__device__ inline void copy_box_out(const void* map, const void* from, int x, int y, int z) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];\n" ::"l"(map),
               "r"(shared_address(from)), "r"(x), "r"(y), "r"(z) : "memory");
}
__device__ inline void copies_out_commit() { asm volatile("cp.async.bulk.commit_group;\n" ::: "memory"); }
template <int pending> __device__ inline void copies_out_wait() {
  asm volatile("cp.async.bulk.wait_group.read %0;\n" ::"n"(pending) : "memory");
}

// A barrier for all threads of the cluster's blocks; makes all previous writes, barriers included, visible to the
// others.
__device__ inline void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n" ::: "memory");
}
__device__ inline unsigned block_in_cluster() {
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
  return rank;
}

// The address of p in the shared memory of another block of the cluster, and a store there: 16 bytes, which that block
// can read after cluster_sync.
__device__ inline std::uint32_t address_in(const void* p, int block) {
  std::uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;\n" : "=r"(there) : "r"(shared_address(p)), "r"(block));
  return there;
}
__device__ inline void store_in(std::uint32_t there, const float4& v) {
  asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};\n" ::"r"(there), "f"(v.x), "f"(v.y), "f"(v.z),
               "f"(v.w) : "memory");
}

// Between blocks, through global memory: what a thread has written before it raises a flag, and what its warpgroup has
// written before the barrier before that, can be read by a thread that has waited for the flag, and its warpgroup after
// a barrier.
__device__ inline void raise_flag(unsigned* flag) {
  asm volatile("st.release.gpu.u32 [%0], %1;\n" ::"l"(flag), "r"(1) : "memory");
}
__device__ inline void wait_for_flag(const unsigned* flag) {
  unsigned raised = 0;
  while (!raised) asm volatile("ld.acquire.gpu.u32 %0, [%1];\n" : "=r"(raised) : "l"(flag) : "memory");
}

template <int registers> __device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(registers));
}
template <int registers> __device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(registers));
}

// A barrier of one warpgroup: id 1 to 15, 128 threads.
__device__ inline void warpgroup_sync(int id) { asm volatile("bar.sync %0, 128;\n" ::"r"(id) : "memory"); }

__device__ inline void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
__device__ inline void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory"); }
template <int pending> __device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(pending) : "memory");
}

// d (64 x n over a warpgroup; see ptx::Accumulator for each 16x8 piece) = a @ b + (add ? d : 0) over k = 16.
// a_mn, b_mn: the operand is contiguous along m or n instead of k.
template <class T, int n, bool a_mn, bool b_mn> struct Wgmma;

// PTX operand names for the n / 2 elements of d per thread, and their constraints for the compiler.
#define MANTISSA_NAMES_64 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define MANTISSA_NAMES_128 \
  MANTISSA_NAMES_64 ", " \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define MANTISSA_D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define MANTISSA_D16(i) MANTISSA_D4(i), MANTISSA_D4(i + 4), MANTISSA_D4(i + 8), MANTISSA_D4(i + 12)
#define MANTISSA_D64(i) MANTISSA_D16(i), MANTISSA_D16(i + 16), MANTISSA_D16(i + 32), MANTISSA_D16(i + 48)
#define MANTISSA_D128(i) MANTISSA_D64(i), MANTISSA_D64(i + 64)

// type: PTX's name of T. After the elements of d come descriptors, add, and whether a and b are transposed.
#define MANTISSA_WGMMA(T, type, n, names, numbers, of_a, of_b, of_add, turn_a, turn_b)                        \
  template <bool a_mn, bool b_mn> struct Wgmma<T, n, a_mn, b_mn> {                                            \
    __device__ static void run(float (&d)[n / 2], std::uint64_t a, std::uint64_t b, int add) {                \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " of_add ", 0;\n"                                        \
                   "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" names "}, "           \
                   of_a ", " of_b ", p, 1, 1, " turn_a ", " turn_b ";\n}\n"                                   \
                   : numbers                                                                                  \
                   : "l"(a), "l"(b), "r"(add), "n"(int(a_mn)), "n"(int(b_mn)));                               \
    }                                                                                                         \
  };
#define MANTISSA_WGMMA_128(T, type) \
  MANTISSA_WGMMA(T, type, 128, MANTISSA_NAMES_64, MANTISSA_D64(0), "%64", "%65", "%66", "%67", "%68")
#define MANTISSA_WGMMA_256(T, type) \
  MANTISSA_WGMMA(T, type, 256, MANTISSA_NAMES_128, MANTISSA_D128(0), "%128", "%129", "%130", "%131", "%132")
MANTISSA_WGMMA_128(Half, "f16")
MANTISSA_WGMMA_128(BFloat16, "bf16")
MANTISSA_WGMMA_256(Half, "f16")
MANTISSA_WGMMA_256(BFloat16, "bf16")
#undef MANTISSA_WGMMA_256
#undef MANTISSA_WGMMA_128
#undef MANTISSA_WGMMA
#undef MANTISSA_D128
#undef MANTISSA_D64
#undef MANTISSA_D16
#undef MANTISSA_D4
#undef MANTISSA_NAMES_128
#undef MANTISSA_NAMES_64

#else

using cuda_shim::shared_address, cuda_shim::barrier_init, cuda_shim::barrier_init_done, cuda_shim::barrier_arrive,
    cuda_shim::barrier_arrive_in, cuda_shim::barrier_expect, cuda_shim::barrier_wait, cuda_shim::copy_box,
    cuda_shim::address_in, cuda_shim::store_in, cuda_shim::raise_flag, cuda_shim::wait_for_flag,
    cuda_shim::copy_box_to_blocks, cuda_shim::cluster_sync, cuda_shim::block_in_cluster, cuda_shim::store_matrices,
    cuda_shim::show_stores, cuda_shim::copy_box_out, cuda_shim::copies_out_commit, cuda_shim::wgmma_begin,
    cuda_shim::wgmma_commit;
template <int pending> void copies_out_wait() { cuda_shim::copies_out_wait(pending); }
template <class T> std::uint32_t pack(float low, float high) {
  return T(low).bits | static_cast<std::uint32_t>(T(high).bits) << 16;
}
template <int registers> void give_registers() { cuda_shim::set_registers(registers, false); }
template <int registers> void take_registers() { cuda_shim::set_registers(registers, true); }
inline void warpgroup_sync(int id) { cuda_shim::named_barrier(id, 128); }
template <int pending> void wgmma_wait() { cuda_shim::wgmma_wait(pending); }
template <class T, int n, bool a_mn, bool b_mn> struct Wgmma {
  static void run(float (&d)[n / 2], std::uint64_t a, std::uint64_t b, int add) {
    cuda_shim::wgmma({std::is_same_v<T, BFloat16>, n, a_mn, b_mn, a, b, add != 0}, d);
  }
};

#endif

}  // namespace mantissa::hopper
