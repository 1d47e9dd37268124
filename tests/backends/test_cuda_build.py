# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ on a machine that need not have a GPU: what nvcc makes, and what is said when it cannot."""

import ctypes
import os
import re
import struct
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import brainevent
from brainevent.backends.source import cuda as cuda_loaders
from brainevent.errors import (
    CompilationError,
    GpuArchDetectionError,
    HostCompilerIncompatibleError,
    KernelError,
    KernelRegistrationError,
    KernelToolchainError,
    UnsupportedArchError,
)
from brainevent.ffi import frame
from brainevent.toolchain import architectures
from brainevent.toolchain.build import Build
from brainevent.toolchain.find import CudaToolkit, HostCompiler, find_cuda_toolkit
from brainevent.toolchain.signature import resolve_functions
from brainevent.toolchain.wrap import Source, translation_unit

try:
    NVCC, MISSING = find_cuda_toolkit().nvcc, ""
except KernelToolchainError as absent:
    NVCC, MISSING = "", str(absent).splitlines()[0]

needs_nvcc = pytest.mark.skipif(not NVCC, reason=f"needs nvcc: {MISSING}")

VECTORS = r"""
#include "brainevent/common.h"

__global__ void sum(const float* a, const float* b, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] + b[i];
}

__global__ void product(const float* x, float* out, int n, float factor) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = factor * x[i];
}

// @BE vector_add arg arg ret stream
void vector_add(const BE::Tensor a, const BE::Tensor b, BE::Tensor out, int64_t stream) {
  const int n = a.numel_checked_int();
  sum<<<(n + 255) / 256, 256, 0, (cudaStream_t)stream>>>(
      static_cast<const float*>(a.data_ptr()), b.data_ptr<float>(), out.data_ptr<float>(), n);
  BE_CHECK_KERNEL_LAUNCH();
}

// @BE scale_by arg ret attr.scale_factor:float32 stream
void scale_by(const BE::Tensor x, BE::Tensor out, float scale_factor, cudaStream_t stream) {
  const int n = x.numel_checked_int();
  BE_CUDA_CHECK(cudaPeekAtLastError());
  product<<<(n + 255) / 256, 256, 0, stream>>>(x.data_ptr<float>(), out.data_ptr<float>(), n, scale_factor);
}
"""
SMALL = """#include "brainevent/common.h"
__global__ void fill(float* out) { out[0] = VALUE; }
// @BE f ret stream
void f(BE::Tensor out, cudaStream_t stream) { fill<<<1, 1, 0, stream>>>(out.data_ptr<float>()); }
"""
ONE = jax.ShapeDtypeStruct((1,), jnp.float32)


@pytest.fixture(autouse=True)
def for_one_architecture(monkeypatch):
    monkeypatch.setenv("BRAINEVENT_COMPUTE_CAPABILITIES", "9.0")
    monkeypatch.delenv("BRAINEVENT_ALLOW_UNSUPPORTED_COMPILER", raising=False)


@pytest.fixture(scope="module")
def vectors():
    return brainevent.load_cuda_inline("vectors", VECTORS, compute_capability=["10.0", "8.0", "sm_90"])


# ---- the library ----------------------------------------------------------------------------------------------------


def device_code(library):
    """Return (kind, architecture) of the parts of the fat binaries, whose headers begin with a magic number."""
    data, parts, start = Path(library).read_bytes(), [], -1
    while (start := data.find(struct.pack("<I", 0xBA55ED50), start + 1)) >= 0:
        _, version, header, size = struct.unpack_from("<IHHQ", data, start)
        if (version, header) != (1, 16):
            continue
        at = start + header
        while at < start + header + size:
            kind, _, length, content = struct.unpack_from("<HHIQ", data, at)
            parts.append(({1: "PTX", 2: "SASS"}.get(kind, kind), struct.unpack_from("<I", data, at + 28)[0]))
            at += length + content
    return sorted(parts)


@pytest.mark.thorough
@needs_nvcc
def test_one_library_has_the_code_of_every_architecture(vectors):
    assert device_code(vectors.path) == [("PTX", 100), ("SASS", 80), ("SASS", 90), ("SASS", 100)]


def query(handler):
    """Ask a handler for XLA's metadata: (version), traits."""
    metadata = (ctypes.c_int64 * 8)()
    metadata[3] = metadata[4] = -1
    extension = (ctypes.c_int64 * 4)(32, frame.METADATA_EXTENSION, 0, ctypes.addressof(metadata))
    call_frame = (ctypes.c_int64 * 24)()
    call_frame[1] = ctypes.addressof(extension)
    function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(ctypes.cast(handler, ctypes.c_void_p).value)
    assert function(ctypes.addressof(call_frame)) is None
    version = ctypes.cast(ctypes.addressof(metadata) + 24, ctypes.POINTER(ctypes.c_int32))
    return (version[0], version[1]), ctypes.c_int32.from_address(ctypes.addressof(metadata) + 32).value


@needs_nvcc
@pytest.mark.thorough
def test_handlers_answer_xla(vectors, unrecorded):
    for name in ("vector_add", "scale_by"):
        assert query(vectors.get_handler(name)) == query(vectors.redirected(name)[0]) == (frame.api_version(), 1)
        assert hasattr(ctypes.CDLL(vectors.path), f"be_{name}")
    assert query(unrecorded.get_handler("f")) == (frame.api_version(), 0)


@pytest.mark.thorough
@needs_nvcc
def test_a_module_is_registered_and_explains_itself_without_a_gpu(vectors):
    assert vectors.function_names == ["vector_add", "scale_by"]
    assert {"vectors.vector_add", "vectors.scale_by"} <= set(brainevent.list_registered_targets())
    x = jnp.ones(3)
    call = jax.jit(lambda x: vectors.vector_add(x, x, outs=x))
    with pytest.raises(NotImplementedError, match="'vector_add' runs on NVIDIA GPUs, and is called in a program for c"):
        jax.export.export(call, platforms=["cpu"])(x)


@needs_nvcc
def test_functions_come_as_none_list_or_dict(vectors):
    tokens = {"vector_add": ["arg", "arg", "ret", "stream"]}
    tokens["scale_by"] = ["args", "rets", "attrs.scale_factor:float32", "ctx.stream"]
    for functions in (list(tokens), tokens):
        again = brainevent.load_cuda_inline("vectors", VECTORS, functions, compute_capability=["8.0", "9.0", 10.0])
        assert again.content_hash == vectors.content_hash
        assert again.functions["scale_by"].spec == vectors.functions["scale_by"].spec
    with pytest.raises(KernelError, match="functions is the string 'vector_add'"):
        brainevent.load_cuda_inline("vectors", VECTORS, "vector_add")


@needs_nvcc
def test_a_name_that_is_taken_is_refused(vectors):
    brainevent.register_ffi_target("vectors.f", vectors, "vector_add")
    with pytest.raises(KernelRegistrationError, match=r"'vectors\.f' on CUDA is already registered"):
        brainevent.register_ffi_target("vectors.f", vectors, "scale_by")


# ---- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def printed():
    """What builds print, by name."""
    return {}


@pytest.fixture(scope="module")
def unrecorded(tmp_path_factory, printed):
    """A module with every option, from a file in a folder whose name a shell would trip over."""
    folder = tmp_path_factory.mktemp("odd") / "$(touch ran); touch ran,'q\" \\ ü"
    folder.mkdir()
    (folder / "value.h").write_text("#define VALUE __half2float(HALF(2))\n")
    (folder / "kernel ü.cu").write_text('#include "value.h"\n#include <value.h>\n' + SMALL)
    with pytest.MonkeyPatch.context() as patch, pytest.MonkeyPatch.context() as output:
        patch.setenv("BRAINEVENT_ALLOW_UNSUPPORTED_COMPILER", "yes")
        lines = []
        output.setattr("builtins.print", lambda *words, **_: lines.append("\n".join(words)))
        mod = brainevent.load_cuda_file(
            folder / "kernel ü.cu",
            ["f"],
            name="unrecorded",
            allow_cuda_graph=False,
            use_fast_math=True,
            optimization_level=1,
            extra_cuda_cflags=["-DHALF=__half", "-lineinfo"],
            extra_ldflags=["-Wl,-rpath,/opt/one", "-lm", "-rpath=/opt/two"],
            extra_include_paths=[folder],
            compute_capability="9.0",
            verbose=True,
        )
    assert "ran" not in {path.name for path in folder.parent.rglob("*")}
    printed["unrecorded"] = "\n".join(lines)
    return mod


@needs_nvcc
@pytest.mark.thorough
def test_options_reach_the_command(unrecorded, printed):
    words = " --use_fast_math -O1 -allow-unsupported-compiler -DHALF=__half -lineinfo -nodlink -std=c++17 -lm -shared "
    missing = [word for word in words.split() if f" {word} " not in printed["unrecorded"]]
    assert missing == []
    assert "-gencode arch=compute_90,code=sm_90 -gencode arch=compute_90,code=compute_90 " in printed["unrecorded"]
    library = Path(unrecorded.path).read_bytes()
    assert b"/opt/one:/opt/two" in library
    assert device_code(unrecorded.path) == [("PTX", 90), ("SASS", 90)]


def a_build(**changes):
    toolkit = CudaToolkit("/cuda/bin/nvcc", "/cuda", ("/cuda/include",), ("/my cuda/lib",), "13.0", "PATH")
    fields = {"where": "here", "sources": (Source("m.cu", SMALL),), "functions": resolve_functions(SMALL, None, "")}
    fields |= {"compiler": HostCompiler(("/usr/bin/g++",), "g++ 1", "PATH"), "ffi_include_dir": jax.ffi.include_dir()}
    return Build(**{**fields, "versions": (), "toolkit": toolkit, "architectures": ("8.0", "9.0a"), **changes})


def command(**changes):
    return a_build(**changes).command(Path("in"), Path("out"))


def test_the_command_is_one_of_nvcc():
    words = command()
    assert words[0] == "/cuda/bin/nvcc"
    assert words[-3:] == ["in", "-o", "out"]
    assert [word for word in words if word.startswith("arch=")] == [
        "arch=compute_80,code=sm_80",
        "arch=compute_90a,code=sm_90a",
        "arch=compute_90a,code=compute_90a",
    ]
    for pair in (["-ccbin", "/usr/bin/g++"], ["-Xlinker", "/my cuda/lib"]):
        assert pair in [words[i : i + 2] for i in range(len(words))]
    assert {"-O3", "-nodlink", "-I/cuda/include"} <= set(words)
    assert not {"--use_fast_math", "-allow-unsupported-compiler"} & set(words)


@pytest.mark.parametrize(
    ("flag", "linked"),
    [
        ("-rdc=true", True),
        ("--relocatable-device-code=true", True),
        ("-dc", True),
        ("-DARDC", False),
        ("-lineinfo", False),
    ],
)
def test_relocatable_device_code_is_linked(flag, linked):
    assert ("-nodlink" not in command(cflags=(flag,))) == linked


@pytest.mark.parametrize("value", ["1", "true", "YES", "on", "0", "", "no"])
def test_an_unsupported_compiler_is_allowed_by_a_variable(monkeypatch, value):
    monkeypatch.setenv("BRAINEVENT_ALLOW_UNSUPPORTED_COMPILER", value)
    assert ("-allow-unsupported-compiler" in command()) == (value.lower() in ("1", "true", "yes", "on"))


@pytest.mark.parametrize("level", [4, -1, "3", None, 1.5])
def test_a_level_that_nvcc_lacks_is_refused(level):
    with pytest.raises(ValueError, match=r"optimization_level is .*; pass 0, 1, 2 or 3"):
        brainevent.load_cuda_inline("level", SMALL, optimization_level=level)


@pytest.mark.parametrize(
    ("text", "others", "expected"),
    [
        ('#include <cuda_runtime.h>\n#include "brainevent/common.h"\nBE_DISPATCH_ALL_TYPES(x)', [], False),
        ('#  include   "brainevent/common.h"', ["-O3", "-DN=3", '#include "brainevent/tensor.h"'], False),
        ("__half x;", [], True),
        ("half x;", [], True),
        ("__nv_bfloat16 x;", [], True),
        ("BE::float16_t x;", [], True),
        ("BE_DISPATCH_ALL(x)", [], True),
        ("BE_DISPATCH_FLOATING_AND_HALF(x)", [], True),
        ('#include "my.h"', [], True),
        ("#include HEADER", [], True),
        ("#include <mine.h>", ["__half in_a_header;"], True),
        ("T x;", ["-DT=__half"], True),
    ],
)
def test_half_types_are_left_out_where_nothing_can_name_them(text, others, expected):
    unit = translation_unit([Source("m.cu", text)], (), in_graphs=True, others=others)
    assert ("#define BE_WITHOUT_HALF" not in unit) == expected


PRINTS = """#include "brainevent/common.h"
#define TEXT2(...) #__VA_ARGS__
#define TEXT(...) TEXT2(__VA_ARGS__)
extern "C" BE_EXPORT const char* word() { return TEXT(WORD); }
// @BE f ret stream
void f(BE::Tensor out, cudaStream_t stream) {}
"""
ODD = "a $(touch ran)`touch ran`;|&<>'#*? ü, b"


@pytest.mark.thorough
@needs_nvcc
@pytest.mark.parametrize(
    "form",
    ["-D|WORD=", "-DWORD=", "-Xcompiler|-DWORD="],
)
def test_what_a_shell_would_read_arrives_as_it_is(tmp_path, form):
    word = ODD.replace(", ", "") if "X" in form else ODD  # which splits at commas
    *option, last = form.split("|")
    mod = brainevent.load_cuda_inline(
        "worded", PRINTS, extra_cuda_cflags=[*option, last + word], build_directory=tmp_path, auto_register=False
    )
    function = ctypes.CDLL(mod.path).word
    function.restype = ctypes.c_char_p
    assert function().decode() == word
    assert "ran" not in {path.name for path in tmp_path.rglob("*")}


@pytest.mark.thorough
@needs_nvcc
def test_folders_of_libraries_may_have_any_name(tmp_path):
    folders = ["/tmp/a b", "/opt/$(touch ran);`touch ran`", "$ORIGIN/lib"]
    flags = [f"-Wl,-rpath,{folders[0]}", "-Wl,-rpath", f"-Wl,{folders[1]}", f"-rpath={folders[2]}", f"-L{folders[0]}"]
    mod = brainevent.load_cuda_inline(
        "rpaths", SMALL, ["f"], extra_cuda_cflags=["-DVALUE=1"], extra_ldflags=flags, build_directory=tmp_path
    )
    assert ":".join(folders).encode() in read(mod)
    assert "ran" not in {path.name for path in tmp_path.rglob("*")}


@pytest.mark.parametrize(
    "flags", [["-Xptxas", "-v;touch ran"], ["-Xptxas=$(touch ran)"], ["-Xcicc", "`touch ran`"], ["a b.o"], ["-O1\n-O2"]]
)
def test_what_nvcc_would_let_a_shell_read_is_refused(flags):
    with pytest.raises(
        KernelError, match=r"here: extra_cuda_cflags has .* passes this flag to a shell, .*; write it with"
    ):
        command(cflags=tuple(flags))


@pytest.mark.thorough
@needs_nvcc
def test_half_types_may_be_named_by_token_pasting(capsys, own_cache):
    body = "PASTE(BE::flo, at16_t) value{};\n  (void)value;"
    source = "#define PASTE(a, b) a##b\n" + SMALL.replace("fill<<<", f"{body} fill<<<").replace("VALUE", "2")
    mod = brainevent.load_cuda_inline("pasted", source, verbose=True)
    assert mod.function_names == ["f"]
    assert capsys.readouterr().out.count(" -nodlink ") == 2
    with pytest.raises(CompilationError, match="at16_s") as caught:
        brainevent.load_cuda_inline("pasted", source.replace("at16_t", "at16_s"), verbose=True)
    assert "at16_s" in caught.value.compiler_output
    assert capsys.readouterr().out.count(" -nodlink ") == 2


# ---- the C++ interface under nvcc -----------------------------------------------------------------------------------

NUMBERS = {"bool": "b", "int8_t": "a", "int16_t": "s", "int32_t": "i", "int64_t": "l"}
NUMBERS |= {"uint8_t": "h", "uint16_t": "t", "uint32_t": "j", "uint64_t": "m"}
FLOATING, HALF = ["f", "d"], ["6__half", "13__nv_bfloat16"]
COMPLEX = ["N2BE11complex64_tE", "N2BE12complex128_tE"]
FAMILIES = {  # the mangled names of the types
    "FLOATING": FLOATING,
    "FLOATING_AND_HALF": FLOATING + HALF,
    "INTEGRAL": [*NUMBERS.values()],
    "SIGNED_INDEX": ["i", "l"],
    "CSR_INDPTR": ["i", "l"],
    "COMPLEX": COMPLEX,
    "ALL_TYPES": [*FLOATING, *NUMBERS.values()],
    "ALL": [*FLOATING, *HALF, *NUMBERS.values(), *COMPLEX],
}


@pytest.fixture(scope="module")
def interface():
    """A kernel for each macro and type, launched within the macro; it takes tensors, and checks on the device."""
    source = """#include "brainevent/common.h"
template <int Family, typename T> __global__ void copy(const BE::Tensor x, BE::Tensor out) {
  BE_CHECK(x.numel() == out.numel()) << "sizes" << x.numel() << 1.5f << 2.5 << true << x.dtype();
  const int i = threadIdx.x;
  if (i < x.size(0)) out.data_ptr<T>()[i] = x.data_ptr<T>()[i * x.stride(0)];
}
template <typename A, typename B> __global__ void both(const A* a, const B* b, BE::Tensor out) {
  out.data_ptr<A>()[0] = a[0] + static_cast<A>(b[0]);
}
"""
    for i, family in enumerate(FAMILIES):
        source += f"""// @BE {family} arg ret stream
void {family}(const BE::Tensor x, BE::Tensor out, cudaStream_t stream) {{
  BE_DISPATCH_{family}(x.dtype(), scalar_t, {{ copy<{i}, scalar_t><<<1, 32, 0, stream>>>(x, out); }});
}}
"""
    source += """// @BE pair arg arg ret stream
void pair(const BE::Tensor x, const BE::Tensor y, BE::Tensor out, cudaStream_t stream) {
  BE_CHECK_CSR_INDICES_INT32(x);
  BE_DISPATCH_SIGNED_INDEX_PAIR(x.dtype(), y.dtype(), a_t, b_t, {
    both<a_t, b_t><<<1, 1, 0, stream>>>(x.data_ptr<a_t>(), y.data_ptr<b_t>(), out);
  });
  BE_CHECK_KERNEL_LAUNCH_SYNC();
}
"""
    return brainevent.load_cuda_inline("interface", source, compute_capability="9.0", optimization_level=0)


@pytest.mark.thorough
@needs_nvcc
@pytest.mark.parametrize("family", FAMILIES)
def test_every_macro_launches_a_kernel_for_each_of_its_types(interface, family):
    names = set(
        re.findall(rb"_Z4copyILi%dE(\w+?)EvN(?:2BE|S\d*_)6TensorE" % [*FAMILIES].index(family), read(interface))
    )
    assert names == {name.encode() for name in FAMILIES[family]}


@pytest.mark.thorough
@needs_nvcc
def test_two_index_types_make_four_kernels(interface):
    assert set(re.findall(rb"_Z4bothI(\w\w)EvPKT_", read(interface))) == {b"ii", b"il", b"li", b"ll"}
    assert interface.function_names == [*FAMILIES, "pair"]


def read(mod):
    return Path(mod.path).read_bytes()


@pytest.mark.thorough
@needs_nvcc
def test_device_code_may_be_relocatable():
    source = SMALL.replace("VALUE", "other()").replace("__global__", "extern __device__ float other();\n__global__", 1)
    rest = "__device__ float other() { return 3; }\n"
    mod = brainevent.load_cuda_inline("relocatable", [source, rest], extra_cuda_cflags=["-rdc=true"])
    assert mod.function_names == ["f"]
    assert query(mod.get_handler("f"))[1] == 1


# ---- folders --------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    files = {"b_entry.cu": SMALL.replace("VALUE", "value()"), "a_first.cu": '#include "helper.h"\n', "inner/c.cu": "?"}
    files |= {"helper.h": "__device__ inline float value() { return 4; }\n", "notes.txt": "", "d.cuh": ""}
    for name, text in files.items():
        (tmp_path / "my_folder" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "my_folder" / name).write_text(text)
    return tmp_path / "my_folder"


@pytest.mark.thorough
@needs_nvcc
def test_a_folder_is_one_text_in_order(folder):
    mod = brainevent.load_cuda_dir(folder)  # in another order, or with inner/c.cu, it would not compile
    assert mod.function_names == ["f"]
    assert os.path.basename(mod.path) == "my_folder.so"
    chosen = brainevent.load_cuda_dir(str(folder), ["f"], name="my_folder", file_patterns=["a*.cu", "*_entry.cu"])
    assert chosen.content_hash == mod.content_hash
    (folder / "b_entry.cu").write_text("\n" + SMALL.replace("VALUE", "nonsense"))
    with pytest.raises(CompilationError, match=r'\n?b_entry\.cu\(3\): error: identifier "nonsense" is undefined'):
        brainevent.load_cuda_dir(folder)


@pytest.mark.parametrize("patterns", [["*.cuda"], ["x*.cu", "*.CU"]])
def test_a_folder_without_sources_tells_what_it_has(folder, patterns):
    found = r"found there: a_first\.cu, b_entry\.cu, d\.cuh, helper\.h, inner, notes\.txt; set file_patterns"
    with pytest.raises(KernelError, match=rf"load_cuda_dir\('.*my_folder'\): no file matches .*; {found}"):
        brainevent.load_cuda_dir(folder, file_patterns=patterns)


def test_a_folder_must_be_one(folder):
    for wrong in ("nowhere", "helper.h"):
        with pytest.raises(FileNotFoundError, match=rf"load_cuda_dir\('.*{wrong}'\): there is no such folder"):
            brainevent.load_cuda_dir(folder / wrong)
    with pytest.raises(TypeError, match=r"file_patterns is '\*\.cu'; pass a list of strings"):
        brainevent.load_cuda_dir(folder, file_patterns="*.cu")
    with pytest.raises(FileNotFoundError, match=r"there is no file .*a\.cu; in that folder: a_first\.cu, b_entry\.cu"):
        brainevent.load_cuda_file(folder / "a.cu")


# ---- errors ---------------------------------------------------------------------------------------------------------


@needs_nvcc
def test_a_compile_error_shows_the_lines_of_the_user():
    with pytest.raises(CompilationError) as caught:
        brainevent.load_cuda_inline("wrong", "\n\n" + SMALL.replace("VALUE", "nonsense"))
    error, text = caught.value, str(caught.value)
    assert text.startswith("load_cuda_inline('wrong'): compilation failed\n")
    assert re.search(r'^wrong\.cu\(4\): error: identifier "nonsense" is undefined$', text, re.MULTILINE)
    assert "void fill(float* out) { out[0] = nonsense; }" in text
    assert f"\ncommand: {error.command}" in text
    assert error.command.startswith(NVCC)
    assert (error.stage, "nonsense" in error.compiler_output) == ("compile", True)


@needs_nvcc
def test_an_architecture_that_nvcc_lacks_is_reported():
    words = r"does not know compute capability 2\.0; install a CUDA toolkit that does, or choose another"
    with pytest.raises(UnsupportedArchError, match=words) as caught:
        brainevent.load_cuda_inline("old", SMALL, extra_cuda_cflags=["-DVALUE=1"], compute_capability="2.0")
    assert "compute_20" in caught.value.compiler_output
    assert caught.value.command.startswith(NVCC)


@needs_nvcc
@pytest.mark.parametrize("compiler", ["GNU", "clang"])
def test_a_host_compiler_that_nvcc_refuses_is_reported(tmp_path, monkeypatch, compiler):
    fake = tmp_path / "nvcc"
    says = f"host_config.h(1): error: #error -- unsupported {compiler} version! gcc versions later than 9"
    fake.write_text(f'#!/bin/sh\ncase "$*" in *-gencode*) echo "{says}"; exit 1;; esac\nexec "{NVCC}" "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("BRAINEVENT_NVCC_PATH", str(fake))
    words = f"unsupported {compiler} version(.|\n)*name another in CXX, or set BRAINEVENT_ALLOW_UNSUPPORTED_COMPILER=1"
    with pytest.raises(HostCompilerIncompatibleError, match=words) as caught:
        brainevent.load_cuda_inline("refused", SMALL)
    assert isinstance(caught.value, CompilationError)
    assert caught.value.command.startswith(str(fake))


@needs_nvcc
def test_without_a_gpu_the_architecture_must_be_named(monkeypatch):
    def refuse():
        raise RuntimeError("no CUDA here")

    monkeypatch.delenv("BRAINEVENT_COMPUTE_CAPABILITIES")
    monkeypatch.setattr(cuda_loaders, "cuda_capabilities", refuse)
    monkeypatch.setattr(architectures, "_nvidia_smi", list)
    words = r"not set\n  devices: no CUDA here\n  nvidia-smi: no GPU\nName it: call brainevent"
    with pytest.raises(GpuArchDetectionError, match=words):
        brainevent.load_cuda_inline("nowhere", SMALL)
