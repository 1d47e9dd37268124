// SPDX-License-Identifier: Apache-2.0
// Stands in for cuLaunchKernel of the CUDA driver, and counts how often it is called.
extern "C" {

typedef int (*LaunchKernel)(void* kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                            unsigned block_y, unsigned block_z, unsigned shared, void* stream, void** parameters,
                            void** extra);

long launches = 0;
LaunchKernel launch_kernel = nullptr;

int counted(void* kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
            unsigned block_z, unsigned shared, void* stream, void** parameters, void** extra) {
  ++launches;
  return launch_kernel(kernel, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, parameters, extra);
}
}
