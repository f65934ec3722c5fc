package main

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/pion/rtcp"
	"github.com/pion/webrtc/v4"
)

const (
	// waiting is the limit on frames that wait for the decoder.
	waiting = 256
	// askedAgain is the interval between two requests for a key frame, as in `peers/str0m`.
	askedAgain = 300 * time.Millisecond
)

// screen decodes frames and stores the pictures and their times.
type screen struct {
	kept, times *os.File
	frames      chan []byte
	failed      atomic.Bool
}

func newScreen(arguments arguments) (*screen, error) {
	kept, err := os.Create(arguments.file("shown.i420"))
	if err != nil {
		return nil, err
	}
	times, err := os.Create(arguments.file("receiver.times"))
	if err != nil {
		return nil, err
	}
	return &screen{kept: kept, times: times, frames: make(chan []byte, waiting)}, nil
}

// receive reads the packets of a track until the connection ends. The decoder has a goroutine of its own, because pion
// takes a packet's arrival time when it is read.
func (s *screen) receive(track *webrtc.TrackRemote, connection *webrtc.PeerConnection) {
	go func() { leave(fmt.Errorf("cannot show a picture: %w", s.show())) }()
	assembled := newAssembler()
	var askedAt time.Time
	for {
		packet, _, err := track.ReadRTP()
		if err != nil {
			return
		}
		for _, frame := range assembled.push(packet) {
			s.frames <- frame
		}
		assembled.needsKey = s.failed.Swap(false) || assembled.needsKey
		if assembled.needsKey && time.Since(askedAt) >= askedAgain {
			askedAt = time.Now()
			request := &rtcp.PictureLossIndication{MediaSSRC: uint32(track.SSRC())}
			// Errors are ignored: the request is repeated.
			_ = connection.WriteRTCP([]rtcp.Packet{request})
		}
	}
}

// show returns only with an error.
func (s *screen) show() error {
	decoder, err := newDecoder()
	if err != nil {
		return err
	}
	for frame := range s.frames {
		samples, width, height, err := decoder.decode(frame)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			s.failed.Store(true)
			continue
		}
		at := now()
		if _, err := s.kept.Write(samples); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(s.times, "%d %d %.6f\n", width, height, at); err != nil {
			return err
		}
	}
	return nil
}
