/* Repeat calls of the C interface in a compiled loop, for bench/measures/calls.py. */
#include <posenc_fast.h>

static char scratch[1 << 20];
static float out[2];

/* Encode n positions in n calls. Return 0, or the first error. */
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
