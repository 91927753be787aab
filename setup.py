"""Build of the kernel: see CONTRIBUTING.md.

The loops are translated to C once and compiled once for each instruction-set level, with that level's flags, into
the one extension module; the module asks the CPU which of them to use.
"""

import os
import platform
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CompileError


def flag(name):
    return os.environ.get(name, "0") not in ("", "0")


REQUIRED = flag("POSENC_FAST_REQUIRE_EXT")
SANITIZE = flag("POSENC_FAST_SANITIZE")
PURE = flag("POSENC_FAST_NO_EXTENSIONS") or sys.implementation.name != "cpython"
# free-threaded builds have no stable ABI yet
ABI3 = not sysconfig.get_config_var("Py_GIL_DISABLED")

COMMON = ["-O3", "-g0", "-ffp-contract=off"]
# the kernel then loads only into an interpreter that runs with LD_PRELOAD=libasan.so
SANITIZERS = [
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=undefined",
    "-fno-omit-frame-pointer",
    "-fno-wrapv",
    "-g1",
]
LEVELS = {
    "baseline": [],
    "avx2": ["-march=x86-64-v3", "-mprfchw"],
    "avx512": ["-march=x86-64-v4", "-mprfchw", "-mprefer-vector-width=512"],
}


class BuildKernel(build_ext):
    """Compile the loops for every level that machine and compiler know."""

    def build_extension(self, ext):
        loops, ext.sources = ext.sources[1:], ext.sources[:1]
        ext.depends = [*ext.depends, *loops]
        x86 = platform.machine().lower() in ("x86_64", "amd64") and self.compiler.compiler_type != "msvc"
        common = ["/O2"] if self.compiler.compiler_type == "msvc" else COMMON
        if SANITIZE:
            common = [*common, *SANITIZERS]
            ext.extra_link_args = SANITIZERS
        ext.extra_compile_args = common
        levels = LEVELS if x86 and "universal2" not in self.plat_name else {"baseline": []}
        try:
            ext.extra_objects = [
                o for level, flags in levels.items() for o in self.loops(ext, loops, level, common + flags)
            ]
        except (BaseError, CompileError):
            if len(levels) == 1:
                raise
            print("posenc_fast: this compiler does not know x86-64-v3 and -v4; building the baseline alone")
            levels = {"baseline": []}
            ext.extra_objects = self.loops(ext, loops, "baseline", common)
        if len(levels) > 1:
            ext.define_macros = [*ext.define_macros, ("POSENC_LEVELS", "1")]
        super().build_extension(ext)

    def loops(self, ext, sources, level, flags):
        objects = []
        for source in sources:
            name = Path(source).stem
            # one door for each level, and names apart for what Cython makes global
            names = [
                ("POSENC_DOOR", f"posenc{name}_{level}"),
                (f"PyInit_{name}", f"posenc_unused_init{name}_{level}"),
                (f"__pyx_module_is_main_{name}", f"posenc_unused_main{name}_{level}"),
            ]
            if self.compiler.compiler_type != "msvc":
                # the steps of a loop must be inlined, or the loop is not vectorised
                names.append(("CYTHON_INLINE", "__inline__ __attribute__((__always_inline__))"))
                if name == "_rotations":
                    # gcc 12 makes an FMA of the two sums of a pair, whatever -ffp-contract says
                    flags = [*flags, "-fno-tree-slp-vectorize"]
            objects += self.compiler.compile(
                [source],
                output_dir=str(Path(self.build_temp) / level),
                macros=[*ext.define_macros, *names],
                include_dirs=ext.include_dirs,
                extra_postargs=flags,
                depends=ext.depends,
            )
        return objects


def extensions():
    if PURE:
        if REQUIRED:
            raise SystemExit("POSENC_FAST_REQUIRE_EXT is set, but no extension can be built for this interpreter")
        return []
    from Cython.Build import cythonize

    options = {"include_path": ["src"], "build_dir": "build"}
    loops = cythonize([Extension(name, [f"src/{name}.pyx"]) for name in ("_loops", "_rotations")], **options)
    (kernel,) = cythonize([Extension("posenc_fast._kernel", ["src/_kernel.pyx"])], **options)
    kernel.sources += [source for part in loops for source in part.sources]
    kernel.include_dirs = ["src"]
    kernel.depends = ["src/posenc.h", "src/coefficients.h", "src/posenc.pxd", "src/guards.pxd"]
    kernel.py_limited_api = ABI3
    if ABI3:
        kernel.define_macros = [("Py_LIMITED_API", "0x030B0000")]
    if flag("POSENC_FAST_DEBUG"):
        # what guards.pxd looks at
        kernel.define_macros = [*kernel.define_macros, ("POSENC_FAST_DEBUG", "1")]
    # cythonize drops this: without a compiler a user gets the pure-Python package, a packager an error
    kernel.optional = not REQUIRED
    return [kernel]


ext_modules = extensions()
setup(
    ext_modules=ext_modules,
    cmdclass={"build_ext": BuildKernel},
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if ext_modules and ABI3 else {},
)
