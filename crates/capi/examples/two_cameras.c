/* Two cameras in one call over loopback: the front one gets three times the budget of the rear one.
 * cc two_cameras.c $(pkg-config --cflags --libs lockstep) -o two_cameras */
#include <lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 64, HEIGHT = 48 };

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
    require(lockstep_options_add_stream(send, "front", WIDTH, HEIGHT, 30, 1, 3.0), "front");
    require(lockstep_options_add_stream(send, "rear", WIDTH, HEIGHT, 30, 1, 1.0), "rear");
    lockstep_call *sender = lockstep_join(send, ticket);
    require(sender != NULL, "join");
    lockstep_options_free(send);

    static unsigned char samples[WIDTH * HEIGHT * 3 / 2];
    lockstep_picture picture = {
        .width = WIDTH, .height = HEIGHT,
        .planes = {samples, samples + WIDTH * HEIGHT, samples + WIDTH * HEIGHT * 5 / 4},
        .strides = {WIDTH, WIDTH / 2, WIDTH / 2},
    };
    int shown[2] = {0, 0};
    for (int number = 0; number < 300 && (shown[0] < 10 || shown[1] < 10); number++) {
        memset(samples, number % 200, sizeof samples);
        require(lockstep_send_stream_frame(sender, "front", &picture, 0), "front");
        require(lockstep_send_stream_frame(sender, "rear", &picture, 0), "rear");
        lockstep_frame frame;
        for (int wait = 33; lockstep_next_frame(receiver, wait, &frame); wait = 0) {
            require(strcmp(frame.stream_name, frame.stream == 0 ? "front" : "rear") == 0, frame.stream_name);
            shown[frame.stream]++;
            lockstep_frame_free(&frame);
        }
    }
    if (lockstep_send_stream_frame(sender, "side", &picture, 0)) return 1; /* this stream does not exist */
    lockstep_leave(sender);
    lockstep_leave(receiver);
    printf("%d frames of the front camera, %d of the rear one\n", shown[0], shown[1]);
    return shown[0] >= 10 && shown[1] >= 10 ? 0 : 1;
}
