/* Calls of the C interface one after the other, as a compiled program makes them: bench/measures/calls.py. */
#include <posenc_fast.h>

static char scratch[1 << 20];
static float out[2];

/* 0, or the error of one of n calls: rows of one position, each another one */
int posenc_calls(const posenc_fast_api *pf, const posenc_fast_encoding *e, ptrdiff_t n)
{
    double position;
    ptrdiff_t i;
    int error = pf->columns(e) == 2 ? POSENC_FAST_OK : POSENC_FAST_ERROR_LENGTH;
    for (i = 0; error == POSENC_FAST_OK && i < n; i++) {
        position = (double)i;
        error = pf->encode(e, &position, 1, POSENC_FAST_FLOAT32, out, sizeof out, scratch, sizeof scratch);
    }
    return error;
}
