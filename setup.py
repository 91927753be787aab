"""Build the kernel (see CONTRIBUTING.md).

Cython translates the loops (src/_loops.pyx, _rotations.pyx and _grids.pyx) to C once. The C compiler compiles them for
each instruction-set level, with the flags of the level, into one extension module. At import, the module asks the CPU
which levels it supports.
"""

import os
import re
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError


def flag(name):
    return os.environ.get(name, "0") not in ("", "0")


REQUIRED = flag("POSENC_FAST_REQUIRE_EXT")
SANITIZE = flag("POSENC_FAST_SANITIZE")
PURE = flag("POSENC_FAST_NO_EXTENSIONS") or sys.implementation.name != "cpython"
# free-threaded builds have no stable ABI yet
ABI3 = not sysconfig.get_config_var("Py_GIL_DISABLED")

# The kernel computes the rounding errors of sums and products. These errors are right only if the compiler keeps each
# operation as it is written. The flags below come after CFLAGS and LDFLAGS, and so override them. src/arithmetic.h
# stops the build if a flag cannot be overridden.
STRICT = ["-O3", "-fno-fast-math", "-fno-unsafe-math-optimizations", "-fno-associative-math", "-fno-reciprocal-math"]
STRICT += ["-fno-finite-math-only", "-fsigned-zeros", "-ffp-contract=off"]
# These flags override -Ofast and -ffast-math, with which the linker of gcc 12 and earlier adds code that flushes
# subnormals to zero in the whole process.
STRICT_LINK = ["-O3", "-fno-fast-math", "-fno-unsafe-math-optimizations"]
# Compute doubles by SSE instructions, because the older x87 instructions do not round each result to a double. A 32-bit
# build then needs a CPU with SSE2, as NumPy does.
STRICT_X86 = {64: ["-mfpmath=sse"], 32: ["-msse2", "-mfpmath=sse"]}
# With /fp:precise, compilers before Visual Studio 2022 merge products and sums to FMA. A pragma in src/arithmetic.h
# forbids this.
STRICT_MSVC = ["/O2", "/fp:precise"]
# a kernel with these flags needs an interpreter that runs with LD_PRELOAD=libasan.so
SANITIZERS = [
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=undefined",
    "-fno-omit-frame-pointer",
    "-fno-wrapv",
    "-g1",
]
# Levels above baseline, slowest first. With -mprfchw, prefetches for writing become the instruction PREFETCHW, which is
# not part of the levels. CPUs with AVX2 that lack this instruction (Haswell) ignore it, so no check is needed.
LEVELS = {
    "avx2": ["-march=x86-64-v3", "-mprfchw"],
    "avx512": ["-march=x86-64-v4", "-mprfchw", "-mprefer-vector-width=512"],
}
LEVELS_MSVC = {"avx2": ["/arch:AVX2"], "avx512": ["/arch:AVX512"]}


class BuildKernel(build_ext):
    """Compile the loops for every level that the target architecture and the compiler support."""

    def build_extension(self, ext):
        try:
            self.build_levels(ext)
        except (BaseError, CCompilerError) as error:
            effect = "" if REQUIRED else ", so posenc_fast runs in slow pure Python"
            self.loudly(f"{ext.name} could not be built{effect}: {error}")
            raise

    def build_levels(self, ext):
        loops, ext.sources = ext.sources[1:], ext.sources[:1]
        ext.depends = [*ext.depends, *loops]
        msvc = self.compiler.compiler_type == "msvc"
        bits = self.x86_bits()
        common = STRICT_MSVC if msvc else ["-g0", *STRICT, *STRICT_X86.get(bits, [])]
        if not msvc:
            ext.extra_link_args = STRICT_LINK
        if SANITIZE:
            common = [*common, *SANITIZERS]
            ext.extra_link_args = [*STRICT_LINK, *SANITIZERS]
        ext.extra_compile_args = common
        ext.extra_objects = self.loops(ext, loops, "baseline", common)
        for level, flags in (LEVELS_MSVC if msvc else LEVELS).items() if bits == 64 else ():
            try:
                ext.extra_objects += self.loops(ext, loops, level, common + flags)
            except (BaseError, CCompilerError):
                self.loudly(f"the level {level} is omitted, because the compiler failed (flags {' '.join(flags)})")
            else:
                ext.define_macros = [*ext.define_macros, (f"POSENC_{level.upper()}", "1")]
        super().build_extension(ext)

    def x86_bits(self):
        """Return 64 or 32 if the target is x86-64 or 32-bit x86, else 0. Only x86-64 has levels above baseline."""
        target = self.plat_name.replace("-", "_")
        if target.endswith(("x86_64", "amd64")):
            # a 32-bit Python on a 64-bit operating system may have the plat_name of a 64-bit Python
            return 64 if sys.maxsize > 2**32 else 32
        return 32 if target.endswith(("i386", "i486", "i586", "i686", "win32")) else 0

    def loudly(self, message):
        print(f"\nposenc_fast: {message}\n", file=sys.stderr, flush=True)

    def loops(self, ext, sources, level, flags):
        objects, msvc = [], self.compiler.compiler_type == "msvc"
        for source in sources:
            name = Path(source).stem
            # all levels are linked into one module, so their entries and Cython's global symbols need different names
            names = [
                ("POSENC_ENTRY", f"posenc{name}_{level}"),
                (f"PyInit_{name}", f"posenc_unused_init{name}_{level}"),
                (f"__pyx_module_is_main_{name}", f"posenc_unused_main{name}_{level}"),
            ]
            # let the compiler decide which functions of .pxd files to inline, except those marked by POSENC_STEP
            names.append(("CYTHON_INLINE", "" if msvc else "__attribute__((__unused__))"))
            # without this flag, gcc 12 merges products and sums to FMA, in spite of -ffp-contract=off
            more = ["-fno-tree-slp-vectorize"] if name == "_rotations" and not msvc else []
            objects += self.compiler.compile(
                [source],
                output_dir=str(Path(self.build_temp) / level),
                macros=[*ext.define_macros, *names],
                include_dirs=ext.include_dirs,
                extra_postargs=[*flags, *more],
                depends=ext.depends,
            )
        return objects


def extensions():
    if PURE:
        if REQUIRED:
            reason = (
                "POSENC_FAST_NO_EXTENSIONS is set, too"
                if flag("POSENC_FAST_NO_EXTENSIONS")
                else f"the kernel needs CPython, and this is {sys.implementation.name}"
            )
            raise SystemExit(f"POSENC_FAST_REQUIRE_EXT is set, but {reason}")
        return []
    from Cython.Build import cythonize

    # the include path "." is needed to find posenc_fast/c_api.pxd, which declares the contents of posenc_fast.h
    options = {"include_path": ["src", "."], "build_dir": "build"}
    loops = cythonize([Extension(name, [f"src/{name}.pyx"]) for name in ("_loops", "_rotations", "_grids")], **options)
    (kernel,) = cythonize([Extension("posenc_fast._kernel", ["src/_kernel.pyx"])], **options)
    kernel.sources += [source for part in loops for source in part.sources]
    kernel.include_dirs = ["src", "posenc_fast/include"]
    kernel.depends = sorted(str(path) for kind in ("h", "pxd") for path in Path("src").glob(f"*.{kind}"))
    kernel.depends += ["posenc_fast/c_api.pxd", "posenc_fast/include/posenc_fast.h"]
    kernel.py_limited_api = ABI3
    if ABI3:
        kernel.define_macros = [("Py_LIMITED_API", "0x030B0000")]
    if flag("POSENC_FAST_DEBUG"):
        # enables the checks of guards.pxd
        kernel.define_macros = [*kernel.define_macros, ("POSENC_FAST_DEBUG", "1")]
    # If the kernel cannot be built, the installation goes on without it, or fails with POSENC_FAST_REQUIRE_EXT=1. The
    # attribute is set here, because cythonize drops it.
    kernel.optional = not REQUIRED
    return [kernel]


def description():
    """Return README.md for a package index: without pictures, links to files, and parts that need a checkout."""
    text = Path("README.md").read_text("utf-8")
    text = re.sub(r"<!-- checkout -->.*?<!-- /checkout -->\n+", "", text, flags=re.DOTALL)
    text = re.sub(r" \(\[[^]]*\]\((?!https?:)[^)]*\)\)", "", text)
    text = re.sub(r"!\[[^]]*\]\([^)]*\)\n+", "", text)
    return re.sub(r"\[([^]]*)\]\((?!https?:)[^)]*\)", r"\1", text)


ext_modules = extensions()
setup(
    long_description=description(),
    long_description_content_type="text/markdown",
    ext_modules=ext_modules,
    cmdclass={"build_ext": BuildKernel},
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if ext_modules and ABI3 else {},
)
