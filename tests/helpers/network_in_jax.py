# SPDX-License-Identifier: Apache-2.0
"""A pretend GPU whose kernels XLA's programs on the CPU run, each block in a thread of its own."""

import ctypes

import jax
import llvmlite.binding as llvm
from gpu_on_cpu import HEAD, STRUCTURES, PretendDevice, library

from brainevent.ffi.launch.host import Host, pack_object
from brainevent.scalar.cuda_text import FLUSHING

KINDS = {"fill": ["Piece"], **STRUCTURES}

# A launch on the CPU is told no grid: `run` finds the number of blocks in its first parameter.
ON_THREADS = """
#include <pthread.h>
#include <cstdlib>
struct Job {{ pthread_t thread; unsigned block, blocks; const void* const* given; }};
static void* go(void* at) {{
    const Job& job = *(const Job*)at;
    {flushing}
    blockIdx.x = job.block; gridDim.x = job.blocks; block_room = (unsigned char*)aligned_alloc(16, 227 * 1024);
    {entry}({passed});
    std::free(block_room);
    return nullptr;
}}
extern "C" void here({taken}) {{
    const void* const given[] = {{{given}}};
    const unsigned blocks = {blocks};
    Job* const jobs = new Job[blocks];
    for (unsigned k = 0; k < blocks; ++k) {{
        jobs[k].block = k; jobs[k].blocks = blocks; jobs[k].given = given;
        if (pthread_create(&jobs[k].thread, nullptr, go, &jobs[k])) std::abort();
    }}
    for (unsigned k = 0; k < blocks; ++k) pthread_join(jobs[k].thread, nullptr);
    delete[] jobs;
}}
"""


def on_threads(entry, beside=False, several=False):
    """Return the text of the function that a launch calls, with the addresses of all parameters."""
    kinds = ["Net*", *KINDS[entry][1:]] if beside else KINDS[entry]
    blocks = "(*x0)->blocks * (*x0)->networks" if beside else "x0->blocks" if entry == "run" else "1"
    if several and entry == "run":
        blocks = "x0->own_blocks + (COURIER ? 1 : 0)"
    return ON_THREADS.format(
        flushing=FLUSHING,
        entry=entry,
        taken=", ".join(f"const {kind}* x{k}" for k, kind in enumerate(kinds)),
        given=", ".join(f"x{k}" for k in range(len(kinds))),
        passed=", ".join(f"*(const {kind}*)job.given[{k}]" for k, kind in enumerate(kinds)),
        blocks=blocks,
    )


class DeviceInJax(PretendDevice):
    """A `Device` that is JAX's CPU."""

    of_jax = property(lambda self: jax.devices("cpu")[0])

    def code(self, text, entry):
        """Return code that calls a function of a library: what is linked for programs can have no `thread_local`."""
        function = library(HEAD + text + on_threads(entry, "#define BESIDE" in text, "run_courier" in text)).here
        address, parameters = ctypes.cast(function, ctypes.c_void_p).value, len(KINDS[entry])
        given = ", ".join(f"ptr %{k}" for k in range(parameters))
        text = f"define void @{entry}({given}) {{\n call void inttoptr (i64 {address} to ptr)({given})\n ret void\n}}"
        Host()  # makes LLVM ready
        machine = llvm.Target.from_default_triple().create_target_machine(codemodel="large", reloc="pic")
        code = machine.emit_object(llvm.parse_assembly(text))
        return pack_object(code, {entry: parameters}, native=False, alone=False), entry
