/* Lockstep: live video calls. Generated from crates/capi by cbindgen; do not edit.
 *
 * Every function accepts a null handle and then does nothing, or fails. A function that fails returns null or false;
 * lockstep_last_error() returns the reason, for the calling thread. Strings are UTF-8. All functions may be called from any
 * thread; the handle of a call may be used by several threads at once. */

#ifndef LOCKSTEP_H
#define LOCKSTEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Size of the longest name of a video stream in bytes, including the final zero.
#define LOCKSTEP_STREAM_NAME_SIZE 33

// The delay that a call tolerates for a better picture.
typedef enum lockstep_latency {
  // As little delay as possible: remote operation and games.
  LOCKSTEP_LATENCY_LOW,
  // Delay of a conversation.
  LOCKSTEP_LATENCY_BALANCED,
  // More delay for a better picture: watching.
  LOCKSTEP_LATENCY_QUALITY,
} lockstep_latency;

// The kind of an event.
typedef enum lockstep_event_kind {
  // The other end has joined.
  LOCKSTEP_EVENT_KIND_JOINED,
  // Packets take another path.
  LOCKSTEP_EVENT_KIND_PATH_CHANGED,
  // Nothing arrives from the other end.
  LOCKSTEP_EVENT_KIND_INTERRUPTED,
  // Packets arrive again.
  LOCKSTEP_EVENT_KIND_RESUMED,
  // The other end muted its sound (bit 0 of value) or turned its camera off (bit 1), or on again.
  // It records the call, or no longer does (bit 2).
  LOCKSTEP_EVENT_KIND_PEER_CHANGED,
  // Quality of a stream, once per second: text describes it, value is the target bit rate in bit/s, or 0.
  LOCKSTEP_EVENT_KIND_QUALITY,
  // The newest picture is too old; value is its age in microseconds. A remote-controlled machine should stop.
  LOCKSTEP_EVENT_KIND_STALE,
  // A picture younger than the limit is shown again.
  LOCKSTEP_EVENT_KIND_FRESH,
  // A message arrived: data holds it, value is its delay in microseconds.
  LOCKSTEP_EVENT_KIND_MESSAGE,
  // The call is over.
  LOCKSTEP_EVENT_KIND_ENDED,
  // The call failed; text is the reason.
  LOCKSTEP_EVENT_KIND_FAILED,
  // A condition degrades the call; text describes it.
  LOCKSTEP_EVENT_KIND_WARNING,
  // An event that this header does not know.
  LOCKSTEP_EVENT_KIND_OTHER,
  // The other end sends a named video stream; text is the name.
  LOCKSTEP_EVENT_KIND_STREAM_ANNOUNCED,
} lockstep_event_kind;

// A call.
typedef struct lockstep_call lockstep_call;

// Options of a call. By default it neither sends nor receives pictures.
typedef struct lockstep_options lockstep_options;

// An event, valid until lockstep_event_free().
typedef struct lockstep_event {
  // Kind of the event, which defines the meaning of the other fields.
  enum lockstep_event_kind kind;
  // A number; see the kind.
  uint64_t value;
  // Number of the video stream for LOCKSTEP_EVENT_KIND_STALE, FRESH, QUALITY and STREAM_ANNOUNCED; otherwise 0.
  uint32_t stream;
  // A description, never null.
  char *text;
  // Bytes of a message; null for other kinds.
  uint8_t *data;
  // Number of these bytes.
  size_t size;
  // Channel of a latest message; -1 for a reliable one.
  int32_t channel;
} lockstep_event;

// Callback for events, on a thread of the library, with the application's pointer. The event is freed afterwards.
typedef void (*lockstep_on_event)(const struct lockstep_event *event, void *user);

// Planes of an I420 picture: luma, and two of half the size in each direction, rounded up.
typedef struct lockstep_picture {
  // Samples in a row of luma, 1 to 16383.
  uint32_t width;
  // Rows of luma, 1 to 16383.
  uint32_t height;
  // First samples of the planes Y, U and V.
  const uint8_t *planes[3];
  // Bytes between the starts of two rows, in each plane.
  size_t strides[3];
} lockstep_picture;

// A picture of the other end, valid until lockstep_frame_free().
typedef struct lockstep_frame {
  // The picture; its planes belong to the frame.
  struct lockstep_picture picture;
  // Capture time in microseconds, on the other end's clock.
  uint64_t captured_us;
  // Age in microseconds, from capture until it was returned; -1 before the clocks are aligned.
  int64_t age_us;
  // Number of its video stream; 0 is the first.
  uint32_t stream;
  // Name of its video stream, with a final zero; empty for the only stream of a call.
  char stream_name[LOCKSTEP_STREAM_NAME_SIZE];
  // Owned by the library.
  void *owner;
} lockstep_frame;

// Callback for pictures, on a thread of the library, with the application's pointer. The frame is freed afterwards.
typedef void (*lockstep_on_frame)(const struct lockstep_frame *frame, void *user);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the reason of the last failure on this thread; empty before the first. The text is valid until the next call
// of a Lockstep function on this thread.
const char *lockstep_last_error(void);

// Returns the version of the library, such as "0.1.0".
const char *lockstep_version(void);

// New options; free them with lockstep_options_free().
struct lockstep_options *lockstep_options_new(void);

// Frees options.
void lockstep_options_free(struct lockstep_options *options);

// Makes the application send pictures of this format with lockstep_send_frame(). The frame rate is
// rate_numerator/rate_denominator per second.
bool lockstep_options_send_frames(struct lockstep_options *options,
                                  uint32_t width,
                                  uint32_t height,
                                  uint32_t rate_numerator,
                                  uint32_t rate_denominator);

// Adds a video stream, whose pictures the application sends with lockstep_send_stream_frame(). The first stream is the
// most important. Streams share one budget in proportion to their priorities, which must be above 0. A name has up to
// 32 letters, digits, '-' and '_'.
bool lockstep_options_add_stream(struct lockstep_options *options,
                                 const char *name,
                                 uint32_t width,
                                 uint32_t height,
                                 uint32_t rate_numerator,
                                 uint32_t rate_denominator,
                                 double priority);

// Makes the application receive pictures, by lockstep_next_frame() or a callback.
void lockstep_options_receive_frames(struct lockstep_options *options);

// Sets the delay that the call tolerates for a better picture. The default is LOCKSTEP_LATENCY_BALANCED.
void lockstep_options_set_latency(struct lockstep_options *options,
                                  enum lockstep_latency latency);

// Sets a cap of the bit rate in bit/s; 0 derives it from the pictures.
void lockstep_options_set_max_bitrate(struct lockstep_options *options, uint64_t bits_per_second);

// Sets the age of the newest picture, in milliseconds, at which LOCKSTEP_EVENT_KIND_STALE is reported; 0 disables
// this.
void lockstep_options_set_stale_after(struct lockstep_options *options,
                                      uint32_t milliseconds);

// Sets the longest wait for the answer to a join, in milliseconds. The default is 10,000.
void lockstep_options_set_wait_limit(struct lockstep_options *options, uint32_t milliseconds);

// Sets whether the call resumes after every failure or departure of the other end.
void lockstep_options_set_reconnect(struct lockstep_options *options, bool reconnects);

// Keeps the key of a listener in this file, so that its ticket stays the same and admits consecutive calls.
bool lockstep_options_set_standing_identity(struct lockstep_options *options,
                                            const char *path);

// Sets a callback for events; lockstep_next_event() then returns none.
void lockstep_options_on_event(struct lockstep_options *options,
                               lockstep_on_event callback,
                               void *user);

// Sets a callback for pictures, and makes the application receive them; lockstep_next_frame() then returns none.
void lockstep_options_on_frame(struct lockstep_options *options,
                               lockstep_on_frame callback,
                               void *user);

// Joins the owner of a ticket. Later failures are events. End the call with lockstep_leave().
struct lockstep_call *lockstep_join(const struct lockstep_options *options, const char *ticket);

// Listens at an address such as "0.0.0.0:0". Writes the ticket and a final zero to `ticket`, which has `size` bytes;
// 1024 suffice.
struct lockstep_call *lockstep_listen(const struct lockstep_options *options,
                                      const char *address,
                                      char *ticket,
                                      size_t size);

// Ends a call, informs the other end, waits for callbacks to return, and frees the handle. Do not call it from a
// callback.
void lockstep_leave(struct lockstep_call *call);

// Sends a copy of a picture that was captured `age_us` microseconds ago. Only the newest picture waits for the
// encoder.
bool lockstep_send_frame(const struct lockstep_call *call,
                         const struct lockstep_picture *picture,
                         uint64_t age_us);

// Like lockstep_send_frame(), for the video stream with this name.
bool lockstep_send_stream_frame(const struct lockstep_call *call,
                                const char *stream,
                                const struct lockstep_picture *picture,
                                uint64_t age_us);

// Waits up to `milliseconds` for the next picture. Returns false if none arrived, or the call has ended. Free it with
// lockstep_frame_free(). At most the newest three pictures wait.
bool lockstep_next_frame(const struct lockstep_call *call,
                         uint32_t milliseconds,
                         struct lockstep_frame *frame);

// Frees a frame that lockstep_next_frame() returned.
void lockstep_frame_free(struct lockstep_frame *frame);

// Waits up to `milliseconds` for the next event. Returns false if there was none, or the last one was returned before.
// Free it with lockstep_event_free().
bool lockstep_next_event(const struct lockstep_call *call,
                         uint32_t milliseconds,
                         struct lockstep_event *event);

// Frees an event that lockstep_next_event() returned.
void lockstep_event_free(struct lockstep_event *event);

// Sends a copy of a message: a reliable one if `channel` is -1, otherwise a latest one of channel 0 to 255.
bool lockstep_send_message(const struct lockstep_call *call,
                           int32_t channel,
                           const uint8_t *data,
                           size_t size);

// Mutes the sound or turns the camera off, or on again, and informs the other end.
void lockstep_set_presence(const struct lockstep_call *call, bool muted, bool camera_off);

// Changes the cap of the bit rate, in bit/s; 0 removes it.
void lockstep_set_max_bitrate(const struct lockstep_call *call, uint64_t bits_per_second);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LOCKSTEP_H */
