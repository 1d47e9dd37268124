# SPDX-License-Identifier: Apache-2.0
"""Write the inventories by which pages link to the sites of Python, NumPy and JAX: `python -m docs.inventories`.

The documentation is built without a network, so Sphinx cannot read the inventories of other sites. The names that we
link to are listed here, with the addresses of their pages; `$` stands for the name. Those of Python were compared with
the inventory of its documentation (3.11), those of NumPy with the source of its documentation (2.4).
"""

import zlib
from pathlib import Path

__all__ = ["FOLDER", "NAMES", "SITES", "inventory", "linked", "write"]

FOLDER = Path(__file__).parent / "_inventories"
SITES = {
    "jax": "https://docs.jax.dev/en/latest/",
    "numpy": "https://numpy.org/doc/stable/",
    "python": "https://docs.python.org/3/",
}
# By site: (role, address, names).
NAMES = {
    "jax": (
        ("class", "_autosummary/$.html#$", "jax.Array jax.ShapeDtypeStruct"),
        (
            "function",
            "_autosummary/$.html#$",
            """jax.block_until_ready jax.checkpoint jax.custom_jvp jax.custom_vjp jax.device_put jax.eval_shape
            jax.ffi.ffi_call jax.ffi.register_ffi_target jax.grad jax.jit jax.jvp jax.linear_transpose jax.lax.fori_loop
            jax.lax.scan jax.lax.while_loop jax.random.bernoulli jax.random.key jax.random.normal jax.random.split
            jax.random.uniform jax.shard_map jax.value_and_grad jax.vjp jax.vmap""",
        ),
        ("function", "jax.export.html#$", "jax.export.export jax.export.deserialize"),
        ("data", "jax.typing.html#$", "jax.typing.ArrayLike jax.typing.DTypeLike"),
        ("class", "errors.html#$", "jax.errors.JaxRuntimeError jax.errors.TracerArrayConversionError"),
    ),
    "numpy": (
        ("class", "reference/generated/$.html#$", "numpy.dtype numpy.ndarray numpy.memmap"),
        ("function", "reference/generated/$.html#$", "numpy.load numpy.save numpy.savez"),
        ("class", "reference/arrays.scalars.html#$", "numpy.bool numpy.floating numpy.integer numpy.number"),
        ("exception", "reference/generated/$.html#$", "numpy.linalg.LinAlgError"),
    ),
    "python": (
        ("class", "library/functions.html#$", "bool complex float int object slice"),
        ("class", "library/stdtypes.html#$", "bytes dict frozenset list range set str tuple"),
        ("data", "library/constants.html#$", "None True False"),
        (
            "exception",
            "library/exceptions.html#$",
            """ArithmeticError AssertionError AttributeError DeprecationWarning Exception FileNotFoundError ImportError
            IndexError KeyError MemoryError ModuleNotFoundError NotImplementedError OSError RuntimeError StopIteration
            TypeError UserWarning ValueError Warning""",
        ),
        (
            "class",
            "library/collections.abc.html#$",
            """collections.abc.Callable collections.abc.Iterable collections.abc.Iterator collections.abc.Mapping
            collections.abc.Sequence""",
        ),
        ("class", "library/contextlib.html#$", "contextlib.AbstractContextManager"),
        ("class", "library/pathlib.html#$", "pathlib.Path"),
        ("class", "library/os.html#$", "os.PathLike"),
        ("data", "library/typing.html#$", "typing.Any typing.Self"),
    ),
}


def linked() -> set[str]:
    """Return all names that have an address."""
    return {name for rows in NAMES.values() for _, _, names in rows for name in names.split()}


def inventory(site: str) -> bytes:
    """Return the inventory of a site, in the second version of Sphinx's format."""
    rows = sorted(
        f"{name} py:{role} 1 {address.replace('$', name)} -"
        for role, address, names in NAMES[site]
        for name in names.split()
    )
    head = f"# Sphinx inventory version 2\n# Project: {site}\n# Version: \n# The remainder is compressed using zlib.\n"
    return head.encode() + zlib.compress("".join(f"{row}\n" for row in rows).encode(), 9)


def write(folder: Path = FOLDER) -> None:
    """Write the inventory of each site."""
    folder.mkdir(exist_ok=True)
    for site in SITES:
        (folder / f"{site}.inv").write_bytes(inventory(site))


if __name__ == "__main__":
    write()
