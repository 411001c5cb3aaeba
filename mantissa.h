// Everything a user of Mantissa needs to build, train and save a model: <mantissa/mantissa.h>.
// Kept light on purpose (tests/include_test.sh prints what it costs). Who writes operators adds <mantissa/ops/apply.h>.
#pragma once

#include "amp/autocast.h"
#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "autograd/hooks.h"
#include "core/allocator.h"
#include "core/ops.h"
#include "core/parallel.h"
#include "core/random.h"
#include "core/tensor.h"
#include "core/version.h"
#include "data/loader.h"
#include "data/mnist.h"
#include "data/synthetic.h"
#include "data/transforms.h"
#include "io/checkpoint.h"
#include "io/safetensors.h"
