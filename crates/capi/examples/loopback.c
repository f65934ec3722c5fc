/* A call over loopback: one end sends pictures and messages, the other shows and counts them.
 * cc loopback.c $(pkg-config --cflags --libs lockstep) -o loopback */
#include <lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 320, HEIGHT = 240 };

static void require(bool ok, const char *what) {
    if (!ok) {
        fprintf(stderr, "%s: %s\n", what, lockstep_last_error());
        exit(1);
    }
}

int main(void) {
    char ticket[1024];
    lockstep_options *receive = lockstep_options_new();
    lockstep_options_receive_frames(receive);
    lockstep_call *receiver = lockstep_listen(receive, "127.0.0.1:0", ticket, sizeof ticket);
    require(receiver != NULL, "listen");
    lockstep_options_free(receive);

    lockstep_options *send = lockstep_options_new();
    require(lockstep_options_send_frames(send, WIDTH, HEIGHT, 30, 1), "format");
    lockstep_options_set_latency(send, LOCKSTEP_LATENCY_LOW);
    lockstep_call *sender = lockstep_join(send, ticket);
    require(sender != NULL, "join");
    lockstep_options_free(send);

    static unsigned char samples[WIDTH * HEIGHT * 3 / 2];
    lockstep_picture picture = {
        .width = WIDTH, .height = HEIGHT,
        .planes = {samples, samples + WIDTH * HEIGHT, samples + WIDTH * HEIGHT * 5 / 4},
        .strides = {WIDTH, WIDTH / 2, WIDTH / 2},
    };
    require(lockstep_send_message(sender, -1, (const uint8_t *)"hello", 5), "message");
    int shown = 0, messages = 0;
    for (int number = 0; number < 90; number++) {
        memset(samples, 60 + number, sizeof samples);
        require(lockstep_send_frame(sender, &picture, 0), "send");
        lockstep_frame frame;
        if (lockstep_next_frame(receiver, 33, &frame)) {
            shown++;
            printf("%ux%u, age %lld us\n", frame.picture.width, frame.picture.height, (long long)frame.age_us);
            lockstep_frame_free(&frame);
        }
        lockstep_event event;
        while (lockstep_next_event(receiver, 0, &event)) {
            if (event.kind == LOCKSTEP_EVENT_KIND_MESSAGE) {
                messages += event.size == 5 && memcmp(event.data, "hello", 5) == 0;
            }
            lockstep_event_free(&event);
        }
    }
    lockstep_leave(sender);
    lockstep_leave(receiver);
    printf("%d frames, %d messages\n", shown, messages);
    return shown >= 30 && messages == 1 ? 0 : 1;
}
