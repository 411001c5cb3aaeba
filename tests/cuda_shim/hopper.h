// Twins of the instructions in amp/kernels/hopper.cuh, which names and explains them. They keep to the PTX ISA, refuse
// what it forbids as far as that can be seen, and let everything asynchronous happen as late as it may, or early
// (set_asynchrony).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "tests/cuda_shim/fibers.h"

namespace cuda_shim {

void barrier_init(std::uint64_t* b, int arrivals);
void barrier_init_done();
void barrier_arrive(std::uint64_t* b);
void barrier_expect(std::uint64_t* b, int bytes);
void barrier_wait(std::uint64_t* b, int parity);

void barrier_arrive_in(std::uint64_t* b, int block);

void copy_box(void* to, const void* map, std::uint64_t* barrier, int x, int y, int z);
void copy_box_to_blocks(unsigned blocks, void* to, const void* map, std::uint64_t* barrier, int x, int y, int z);

void store_matrices(void* row, const std::uint32_t (&r)[4]);
void show_stores();
void copy_box_out(const void* map, const void* from, int x, int y, int z);
void copies_out_commit();
void copies_out_wait(int pending);

void set_registers(int registers, bool more);
void named_barrier(int id, int threads);
void cluster_sync();
unsigned block_in_cluster();
std::uint32_t address_in(const void* p, int block);
void store_in(std::uint32_t there, const float4& v);
void raise_flag(unsigned* flag);
void wait_for_flag(const unsigned* flag);

// What is the same for all threads of a warpgroup.
struct Product {
  bool bf16;  // else f16
  int n;
  bool a_mn, b_mn;
  std::uint64_t a, b;  // descriptors
  bool add;
  bool operator==(const Product&) const = default;
};
void wgmma(const Product& p, float* d);  // d: n / 2 floats of this thread
void wgmma_begin();
void wgmma_commit();
void wgmma_wait(int pending);

}  // namespace cuda_shim
