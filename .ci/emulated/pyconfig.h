/* Settings for Python's headers on systems without Python. They suffice to compile the kernel and run its loops. */
#define SIZEOF_SHORT __SIZEOF_SHORT__
#define SIZEOF_INT __SIZEOF_INT__
#define SIZEOF_LONG_LONG __SIZEOF_LONG_LONG__
#define SIZEOF_WCHAR_T __SIZEOF_WCHAR_T__
#define SIZEOF_DOUBLE __SIZEOF_DOUBLE__
#define SIZEOF_FLOAT __SIZEOF_FLOAT__
#define HAVE_STDDEF_H 1
#define HAVE_WCHAR_H 1
/* on Apple's systems, Python's own headers define these sizes */
#if !defined(__APPLE__)
#define SIZEOF_SIZE_T __SIZEOF_SIZE_T__
#define SIZEOF_LONG __SIZEOF_LONG__
#define SIZEOF_VOID_P __SIZEOF_POINTER__
#endif
#if defined(_WIN32)
#define MS_WINDOWS 1
#define MS_WIN32 1
#define MS_WIN64 1
#define NT_THREADS 1
#define HAVE_DECLSPEC_DLL 1
#else
#define HAVE_PTHREAD_H 1
#define HAVE_SYS_TYPES_H 1
#define HAVE_SYS_TIME_H 1
#define HAVE_SYS_STAT_H 1
#define HAVE_UNISTD_H 1
#define HAVE_SSIZE_T 1
#endif
