// SPDX-License-Identifier: Apache-2.0
// What a kernel file includes: tensors, checks and dispatch over dtypes.  C++17, header-only, for C++ and CUDA C++.
//
//     #include "brainevent/common.h"
//
//     // @BE add arg arg ret
//     void add(const BE::Tensor a, const BE::Tensor b, BE::Tensor out) {
//       BE_CHECK(a.numel() == b.numel()) << "a has " << a.numel() << " elements";
//       BE_DISPATCH_FLOATING(a.dtype(), scalar_t, {
//         for (int64_t i = 0; i < a.numel(); ++i)
//           out.data_ptr<scalar_t>()[i] = a.data_ptr<scalar_t>()[i] + b.data_ptr<scalar_t>()[i];
//       });
//     }
#pragma once

#include "brainevent/check.h"
#include "brainevent/dispatch.h"
#include "brainevent/dtypes.h"
#include "brainevent/tensor.h"
