// The call of loopback.c with callbacks, in C++.
// c++ callbacks.cpp $(pkg-config --cflags --libs lockstep) -o callbacks
#include <lockstep.h>

#include <array>
#include <atomic>
#include <chrono>
#include <iostream>
#include <memory>
#include <thread>
#include <vector>

struct Seen {
    std::atomic<int> frames{0};
    std::atomic<bool> joined{false};
};

extern "C" void on_frame(const lockstep_frame *frame, void *user) {
    std::cout << frame->picture.width << "x" << frame->picture.height << "\n";
    static_cast<Seen *>(user)->frames++;
}

extern "C" void on_event(const lockstep_event *event, void *user) {
    if (event->kind == LOCKSTEP_EVENT_KIND_JOINED) static_cast<Seen *>(user)->joined = true;
    if (event->kind == LOCKSTEP_EVENT_KIND_FAILED) std::cerr << event->text << "\n";
}

using Options = std::unique_ptr<lockstep_options, decltype(&lockstep_options_free)>;
using Call = std::unique_ptr<lockstep_call, decltype(&lockstep_leave)>;

int main() {
    Seen seen;
    std::array<char, 1024> ticket{};
    Options receive(lockstep_options_new(), lockstep_options_free);
    lockstep_options_on_frame(receive.get(), on_frame, &seen);
    lockstep_options_on_event(receive.get(), on_event, &seen);
    Call receiver(lockstep_listen(receive.get(), "127.0.0.1:0", ticket.data(), ticket.size()), lockstep_leave);
    Options send(lockstep_options_new(), lockstep_options_free);
    lockstep_options_send_frames(send.get(), 64, 48, 30, 1);
    Call sender(lockstep_join(send.get(), ticket.data()), lockstep_leave);
    if (!receiver || !sender) {
        std::cerr << lockstep_last_error() << "\n";
        return 1;
    }
    std::vector<unsigned char> grey(64 * 48 * 3 / 2, 128);
    lockstep_picture picture{64, 48, {grey.data(), grey.data(), grey.data()}, {64, 32, 32}};
    for (int number = 0; number < 90; number++) {
        lockstep_send_frame(sender.get(), &picture, 0);
        std::this_thread::sleep_for(std::chrono::milliseconds(33));
    }
    sender.reset();
    receiver.reset();
    return seen.joined && seen.frames >= 30 ? 0 : 1;
}
