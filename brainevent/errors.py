# SPDX-License-Identifier: Apache-2.0
"""The exceptions: each says where, what was found, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

__all__ = [
    "BenchmarkDataFnNotProvidedError",
    "BrainEventError",
    "CUDANotInstalledError",
    "CheckFailedError",
    "CheckpointError",
    "CompilationError",
    "GpuArchDetectionError",
    "HeaderNotFoundError",
    "HostCompilerIncompatibleError",
    "HostCompilerNotFoundError",
    "KernelArgumentError",
    "KernelCompilationError",
    "KernelError",
    "KernelExecutionError",
    "KernelFallbackExhaustedError",
    "KernelLoadError",
    "KernelNotAvailableError",
    "KernelOutputError",
    "KernelRegistrationError",
    "KernelToolchainError",
    "MathError",
    "NetworkError",
    "NoRuleError",
    "NotFiniteError",
    "NvccNotFoundError",
    "OperandError",
    "RegistrationTypeError",
    "RegistrationValueError",
    "RuleError",
    "ShapeError",
    "UnknownBufferError",
    "UnknownNameError",
    "UnknownPlatformError",
    "UnsupportedArchError",
    "UnsupportedOperationError",
]


class BrainEventError(Exception):
    """The root of all exceptions of this package."""


class MathError(BrainEventError):
    """A product of events that is not defined, for example with an array of rank 3."""


class ShapeError(MathError, ValueError, AssertionError):
    """A product of arrays whose shapes do not match; existing programs expect either built-in class."""


class UnsupportedOperationError(BrainEventError):
    """An operation that this kind of matrix, or of kernel, does not support."""


class UnknownBufferError(BrainEventError, KeyError, ValueError):
    """A buffer that was not registered; existing programs expect either built-in class."""

    __str__ = Exception.__str__  # KeyError would put the message in quotes


class BenchmarkDataFnNotProvidedError(BrainEventError):
    """An operator cannot be measured because it has no benchmark data."""


class CheckFailedError(BrainEventError, AssertionError):
    """An operator breaks a promise: raised by `CheckReport.raise_if_failed`."""


class KernelError(BrainEventError):
    """Something is wrong with a kernel."""


class KernelNotAvailableError(KernelError, RuntimeError):
    """A kernel's language is not installed here."""


class KernelExecutionError(KernelError):
    """A kernel failed while it ran."""


class CUDANotInstalledError(KernelError):
    """A kernel needs CUDA, which is not installed here."""


class KernelFallbackExhaustedError(KernelError):
    """No kernel of this operator matches the requested platform or backend."""


def _before(error: BaseException) -> BaseException | None:
    """Return the error that a traceback shows before this one."""
    return error.__cause__ or (None if error.__suppress_context__ else error.__context__)


class KernelCompilationError(KernelError):
    """A kernel generator, or the kernel it returned, failed while it was built: its own error is `__cause__`."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; if JAX puts its own stack trace before the cause, put that before JAX's."""
        cause: BaseException | None = self.__cause__ if name == "__cause__" else None
        if cause is None or getattr(value, "__cause__", None) is not cause:
            super().__setattr__(name, value)
            return
        value.__cause__ = value.__context__ = None
        earlier: BaseException | None = cause
        while earlier is not None:
            first, earlier = earlier, _before(earlier)
        if type(first) is not type(value):  # one stack trace is enough
            first.__cause__ = value


class KernelOutputError(KernelCompilationError, ValueError):
    """The results of a kernel do not match `outs`."""


class KernelArgumentError(KernelCompilationError, TypeError):
    """A kernel does not accept its operands."""


class CompilationError(KernelCompilationError):
    """A compiler failed, is missing or took too long.

    The text has the message, what the compiler printed, and the command; the last two only if the message lacks them.

    Args:
        message: What went wrong.
        compiler_output: What the compiler printed.
        command: The command that ran.
        stage: What it did, such as "compile".
    """

    def __init__(self, message: str, compiler_output: str = "", command: str = "", stage: str = "compile"):
        super().__init__(_with_command(_with_output(message, compiler_output), command))
        self.compiler_output, self.command, self.stage = compiler_output, command, stage


class HostCompilerIncompatibleError(CompilationError):
    """The CUDA compiler rejects the host's C++ compiler."""


class KernelToolchainError(KernelError):
    """A tool or directory for building kernels from source is missing or unusable."""


class NvccNotFoundError(KernelToolchainError):
    """There is no CUDA compiler."""


class HostCompilerNotFoundError(KernelToolchainError):
    """There is no C++ compiler."""


class HeaderNotFoundError(KernelToolchainError):
    """A header that kernels include is missing."""


class GpuArchDetectionError(KernelToolchainError):
    """The GPU to compile for cannot be determined."""


class UnsupportedArchError(KernelToolchainError):
    """The CUDA compiler does not know the GPU.

    Args:
        message: What went wrong.
        compiler_output: What the compiler printed.
        command: The command that ran.
        stage: What it did, such as "compile".
    """

    def __init__(self, message: str, *, compiler_output: str = "", command: str = "", stage: str = ""):
        super().__init__(_with_command(_with_output(message, compiler_output), command))
        self.compiler_output, self.command, self.stage = compiler_output, command, stage


def _with_output(message: str, output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    return message if any(line in message for line in lines) or not lines else f"{message}\n{output.strip()}"


def _with_command(message: str, command: str) -> str:
    return f"{message}\ncommand: {command}" if command and command not in message else message


class KernelLoadError(KernelError):
    """A compiled kernel cannot be loaded."""


class KernelRegistrationError(KernelError):
    """The name of a kernel is taken by another one."""


class RegistrationTypeError(BrainEventError, TypeError, AssertionError):
    """A registration with an argument of the wrong type; existing programs expect either built-in class."""


class RegistrationValueError(BrainEventError, ValueError, AssertionError):
    """A registration with an invalid value; existing programs expect either built-in class."""


class UnknownPlatformError(BrainEventError, ValueError, NotImplementedError):
    """A platform that JAX does not have."""


class OperandError(BrainEventError, TypeError, ValueError):
    """An operator's reference or rule does not accept its operands, or returned a wrong type."""


class NoRuleError(BrainEventError, NotImplementedError):
    """An operator was differentiated or transposed but has no rule for it."""


class RuleError(BrainEventError, ValueError):
    """The rule of a neuron does something that no engine supports."""


class NetworkError(BrainEventError, ValueError):
    """The description of a network, or an argument of one of its methods, is not valid."""


class CheckpointError(NetworkError):
    """A file is not a checkpoint, or is one of another network."""


class NotFiniteError(BrainEventError, ArithmeticError):
    """A state of a neuron became infinite or NaN."""


class UnknownNameError(RuleError, AttributeError):
    """A rule reads or replaces a state, receptor or parameter that does not exist."""


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """Return "; did you mean 'numba'?" for a near miss, else an empty string."""
    lower: dict[str, str] = {}
    for name in known:
        lower.setdefault(name.lower(), name)
    close = difflib.get_close_matches(str(word).lower(), list(lower), n=1, cutoff=0.6)
    return f"; did you mean {lower[close[0]]!r}?" if close else ""


def __dir__() -> list[str]:
    return sorted(__all__)
