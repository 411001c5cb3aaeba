// Everything a user of Mantissa needs, in one include: <mantissa/mantissa.h>.
#pragma once

#include "core/tensor.h"
#include "core/version.h"
