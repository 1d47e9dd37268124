# SPDX-License-Identifier: Apache-2.0
"""Mistakes in what finds compilers, reads sources, builds, and keeps what was built."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_BUILD = ("test_builds", "test_loaders")
_CACHE = ("test_cache", "test_cache_processes")
_FIND = ("test_find", "test_cli")
_READ = ("test_signature", "test_cpp")
_FLAGS = ("test_flags", "test_builds", "test_cuda_build")

MUTANTS = (
    Mutant(
        "build-key-without-the-environment",
        "toolchain/build.py",
        'parts += [os.environ.get(name, "") for name in _FLAGS]',
        "parts += _FLAGS",
        _BUILD,
    ),
    Mutant(
        "build-key-of-parts-run-together",
        "toolchain/build.py",
        'digest.update(len(encoded).to_bytes(8, "little") + encoded)',
        "digest.update(encoded)",
        _BUILD,
    ),
    Mutant(
        "build-failure-without-the-status",
        "toolchain/build.py",
        "(the compiler printed nothing; exit status {finished.status})",
        "(the compiler printed nothing)",
        _BUILD,
    ),
    Mutant(
        "cache-changed-library-is-loaded",
        "toolchain/entry.py",
        "if seen != _signature(status):",
        "if seen is None:",
        _CACHE,
    ),
    Mutant(
        "cache-built-again-after-waiting",
        "toolchain/cache.py",
        "if not force and (found := look_up(place)):",
        "if False and (found := look_up(place)):",
        _CACHE,
    ),
    Mutant(
        "cache-lock-is-shared",
        "toolchain/lock.py",
        "fcntl.flock(descriptor, fcntl.LOCK_EX)",
        "fcntl.flock(descriptor, fcntl.LOCK_SH)",
        _CACHE,
    ),
    Mutant(
        "cache-sweeps-what-is-being-built",
        "toolchain/entry.py",
        'if match and not _is_alive(int(match["pid"])):',
        "if match:",
        _CACHE,
    ),
    Mutant(
        "directory-of-a-group-is-trusted",
        "toolchain/trust.py",
        "_OTHERS = stat.S_IWGRP | stat.S_IWOTH",
        "_OTHERS = stat.S_IWOTH",
        _CACHE,
    ),
    Mutant(
        "find-goes-on-after-a-named-tool",
        "toolchain/find.py",
        "        if place.named:\n            break\n",
        "",
        _FIND,
    ),
    Mutant(
        "probe-changed-tool-is-not-asked",
        "toolchain/probe.py",
        "return self.key == key and {path: _signature(path) for path in files} == self.signatures",
        "return self.key == key and files == set(self.signatures)",
        _FIND,
    ),
    Mutant(
        "places-pip-before-the-system-always",
        "toolchain/find.py",
        'system_first = config.prefers_system_nvcc() or prefer == "system"',
        'system_first = prefer == "system"',
        ("test_find", "test_registry_config"),
    ),
    Mutant(
        "architectures-in-the-order-of-words",
        "toolchain/architectures.py",
        "return tuple(sorted(set(capabilities), key=number))",
        "return tuple(sorted(set(capabilities)))",
        ("test_find", "test_cuda_build"),
    ),
    Mutant(
        "nvcc-system-folders-forgotten",
        "toolchain/find.py",
        '+ _folders(lines.get("SYSTEM_INCLUDES", ""))',
        "",
        ("test_find", "test_cuda_build"),
    ),
    Mutant(
        "flags-passed-on-words-not-split",
        "toolchain/flags.py",
        'flag.split(",") if passed_on or flag.startswith(("-Wl,", "-Wp,")) else [flag]',
        'flag.split(",") if flag.startswith(("-Wl,", "-Wp,")) else [flag]',
        _FLAGS,
    ),
    Mutant(
        "includes-beside-a-header-not-found",
        "toolchain/includes.py",
        "[os.path.dirname(path), *folders]))",
        "folders))",
        ("test_builds", "test_flags"),
    ),
    Mutant(
        "quoting-linker-words-not-split",
        "toolchain/build.py",
        'flag.removeprefix("-Wl,").split(",")',
        '[flag.removeprefix("-Wl,")]',
        ("test_flags", "test_cuda_build"),
    ),
    Mutant(
        "process-children-outlive-the-limit",
        "toolchain/process.py",
        "os.killpg(process.pid, signal.SIGKILL)",
        "os.kill(process.pid, signal.SIGKILL)",
        ("test_find", "test_builds"),
    ),
    Mutant(
        "signature-host-and-device-refused",
        "toolchain/signature.py",
        'if "__device__" in marks and "__host__" not in marks:',
        'if "__device__" in marks:',
        _READ,
    ),
    Mutant(
        "signature-macros-without-their-rest",
        "toolchain/signature.py",
        'if lexeme.text == "," and depth == 0 and len(arguments) < count:',
        'if lexeme.text == "," and depth == 0:',
        _READ,
    ),
    Mutant(
        "scan-dead-code-within-dead-code-lives",
        "toolchain/scan.py",
        'dead.append(dead[-1] or words in (["if", "0"], ["if", "false"]))',
        'dead.append(words in (["if", "0"], ["if", "false"]))',
        _READ,
    ),
    Mutant(
        "tokens-swapped-attributes-pass",
        "toolchain/tokens.py",
        "if swapped or not _fits(parameter, cpp):",
        "if not _fits(parameter, cpp):",
        _READ,
    ),
    Mutant(
        "parameters-unsigned-is-signed",
        "toolchain/parameters.py",
        '"u" * (signs == ["unsigned"]) + number',
        "number",
        _READ,
    ),
    Mutant(
        "wrap-attributes-in-the-order-of-the-source",
        "toolchain/wrap.py",
        "sorted(spec.attributes, key=lambda attribute: attribute.name)",
        "list(spec.attributes)",
        ("test_cpp", "test_loaders"),
    ),
    Mutant(
        "header-batch-index-not-divided",
        "toolchain/include/brainevent/handler.h",
        "      rest /= entry[0];\n",
        "",
        ("test_cpp", "test_transformations"),
    ),
    Mutant(
        "header-bfloat16-rounds-halves-up",
        "toolchain/include/brainevent/dtypes.h",
        "bits + 0x7fffu + ((bits >> 16) & 1u)",
        "bits + 0x8000u",
        ("test_cpp", "test_event_csr_languages"),
    ),
    Mutant(
        "header-strides-column-major",
        "toolchain/include/brainevent/tensor.h",
        "for (int i = ndim - 1; i >= 0; --i) {",
        "for (int i = 0; i < ndim; ++i) {",
        ("test_cpp", "test_loaders"),
    ),
    Mutant(
        "header-dispatch-unsigned-as-signed",
        "toolchain/include/brainevent/dispatch.h",
        "BE_DETAIL_CASE(UInt16, uint16_t, NAME,",
        "BE_DETAIL_CASE(UInt16, int16_t, NAME,",
        ("test_cpp", "test_loaders"),
    ),
)
