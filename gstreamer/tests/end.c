/* One end of a call whose other end is a pipeline. `end receive TICKET` requires 100 pictures; `end send TICKET` sends
 * pictures until the other end leaves. */
#include <lockstep.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = 160, HEIGHT = 120, PICTURES = 100, LIMIT_MS = 30000 };

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, lockstep_last_error());
    return 1;
}

static int receive(const lockstep_call *call) {
    for (int count = 0; count < PICTURES; count++) {
        lockstep_frame frame;
        if (!lockstep_next_frame(call, LIMIT_MS, &frame)) {
            return failed("next frame");
        }
        bool fits = frame.picture.width == WIDTH && frame.picture.height == HEIGHT;
        lockstep_frame_free(&frame);
        if (!fits) {
            return failed("size");
        }
    }
    return 0;
}

static int send(const lockstep_call *call) {
    static unsigned char samples[WIDTH * HEIGHT * 3 / 2];
    lockstep_picture picture = {
        .width = WIDTH, .height = HEIGHT,
        .planes = {samples, samples + WIDTH * HEIGHT, samples + WIDTH * HEIGHT * 5 / 4},
        .strides = {WIDTH, WIDTH / 2, WIDTH / 2},
    };
    for (int number = 0;; number++) {
        memset(samples, 60 + number % 100, sizeof samples);
        if (!lockstep_send_frame(call, &picture, 0)) {
            return failed("send");
        }
        lockstep_event event;
        if (lockstep_next_event(call, 33, &event)) {
            enum lockstep_event_kind kind = event.kind;
            lockstep_event_free(&event);
            if (kind == LOCKSTEP_EVENT_KIND_ENDED) {
                return 0;
            }
            if (kind == LOCKSTEP_EVENT_KIND_FAILED) {
                return failed("call");
            }
        }
    }
}

int main(int count, char **words) {
    if (count != 3) {
        return failed("expected receive or send, and a ticket");
    }
    bool receives = strcmp(words[1], "receive") == 0;
    lockstep_options *options = lockstep_options_new();
    if (receives) {
        lockstep_options_receive_frames(options);
    } else if (!lockstep_options_send_frames(options, WIDTH, HEIGHT, 30, 1)) {
        return failed("format");
    }
    lockstep_call *call = lockstep_join(options, words[2]);
    lockstep_options_free(options);
    if (call == NULL) {
        return failed("join");
    }
    int result = receives ? receive(call) : send(call);
    lockstep_leave(call);
    return result;
}
