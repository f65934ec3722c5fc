package main

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/webrtc/v4"
	"github.com/pion/webrtc/v4/pkg/media"
)

// share is the part of the estimate for video, as in `peers/str0m`. Headers and retransmissions need the rest.
const share = 0.9

// camera plays a clip, codes its pictures at the allowed rate, and sends the frames.
type camera struct {
	clip         *clip
	track        *webrtc.TrackLocalStaticSample
	times        *os.File
	maxBps       int
	allowed      atomic.Int64
	keyRequested atomic.Bool
	frames, bits atomic.Int64
	started      sync.Once
}

func newCamera(arguments arguments, track *webrtc.TrackLocalStaticSample) (*camera, error) {
	clip, err := openClip(arguments.clip)
	if err != nil {
		return nil, err
	}
	times, err := os.Create(arguments.file("sender.times"))
	if err != nil {
		return nil, err
	}
	made := &camera{clip: clip, track: track, times: times, maxBps: arguments.maxBps}
	made.allow(arguments.startBps)
	return made, nil
}

// allow sets the rate that the bandwidth estimate allows, bit/s.
func (c *camera) allow(bps int) { c.allowed.Store(int64(min(bps, c.maxBps))) }

// targetBps is the target of the encoder, bit/s.
func (c *camera) targetBps() int { return int(share * float64(c.allowed.Load())) }

// start begins to play the clip. Later calls do nothing.
func (c *camera) start() {
	c.started.Do(func() {
		go func() { leave(fmt.Errorf("cannot play the clip: %w", c.play())) }()
	})
}

// play returns only with an error.
func (c *camera) play() error {
	encoder, err := newEncoder(c.clip.form, c.targetBps())
	if err != nil {
		return err
	}
	samples := make([]byte, c.clip.size())
	began := time.Now()
	var sentUntil time.Duration
	for number := int64(0); ; number++ {
		// Skip pictures whose time has passed.
		number = max(number, int64(time.Since(began).Seconds()*c.clip.rate()))
		if err := c.clip.read(number, samples); err != nil {
			return err
		}
		due := time.Duration(float64(number) / c.clip.rate() * float64(time.Second))
		time.Sleep(due - time.Since(began))
		if _, err := fmt.Fprintf(c.times, "%d %.6f\n", number%c.clip.frames, now()); err != nil {
			return err
		}
		frame, err := encoder.encode(samples, c.targetBps(), c.keyRequested.Swap(false))
		if err != nil {
			return err
		}
		if len(frame) == 0 {
			continue
		}
		c.frames.Add(1)
		c.bits.Add(8 * int64(len(frame)))
		// A sample's time is the sum of the durations before it.
		end := time.Duration(float64(number+1) / c.clip.rate() * float64(time.Second))
		if err := c.track.WriteSample(media.Sample{Data: frame, Duration: end - sentUntil}); err != nil {
			return err
		}
		sentUntil = end
	}
}
