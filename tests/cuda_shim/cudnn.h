// A stand-in for attention by cuDNN (library/cudnn.cpp): our own kernels, which are given what cuDNN would be given.
#pragma once

namespace cuda_shim {

void stand_in_for_cudnn_attention(bool on);  // false at start: there is no cuDNN

}  // namespace cuda_shim
