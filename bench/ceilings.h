// What this machine can do at most, measured now on all threads of the worker: proof 6 holds every result against it.
#pragma once

#include <utility>
#include <vector>

namespace bench {

double fma_f32();   // floating-point operations per second of independent multiply-adds in the widest registers
double dot_bf16();  // the same of bf16 products summed in f32; where the processor has no such instruction, fma_f32()
// (bytes that are read and written, bytes per second) of copies of growing size.
std::vector<std::pair<double, double>> copies();

}  // namespace bench
