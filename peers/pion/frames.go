package main

import (
	"github.com/pion/rtp"
	"github.com/pion/rtp/codecs"
)

// maxWait is the longest wait for a retransmission: 500 ms in RTP's clock for video. pion requests a missing packet
// every 100 ms.
const maxWait = 45_000

// assembler makes VP8 frames of RTP packets. pion's SampleBuilder returns a frame only when the next one begins.
type assembler struct {
	packets map[uint16]*rtp.Packet
	// next is the first packet of the next frame.
	next uint16
	// newest is the packet with the highest number.
	newest *rtp.Packet
	// needsKey is true after a lost frame until a key frame has arrived.
	needsKey bool
}

func newAssembler() *assembler {
	return &assembler{packets: map[uint16]*rtp.Packet{}}
}

// isAfter compares sequence numbers, which wrap around (RFC 3550).
func isAfter(number, than uint16) bool { return int16(number-than) > 0 }

// push adds a packet and returns the frames that can be decoded now, in order.
func (a *assembler) push(packet *rtp.Packet) [][]byte {
	if a.newest == nil {
		a.next = packet.SequenceNumber
	}
	if a.newest == nil || isAfter(packet.SequenceNumber, a.newest.SequenceNumber) {
		a.newest = packet
	}
	if isAfter(a.next, packet.SequenceNumber) {
		return nil
	}
	a.packets[packet.SequenceNumber] = packet
	for oldest := a.oldest(); oldest != nil && a.newest.Timestamp-oldest.Timestamp > maxWait; oldest = a.oldest() {
		a.needsKey = true
		a.skip(oldest.SequenceNumber + 1)
	}
	var frames [][]byte
	for {
		frame, after := a.frame(a.next)
		if a.needsKey && !isKey(frame) {
			frame, after = a.keyFrame()
		}
		if frame == nil {
			return frames
		}
		a.needsKey = false
		a.skip(after)
		frames = append(frames, frame)
	}
}

// oldest is the packet with the lowest number.
func (a *assembler) oldest() (oldest *rtp.Packet) {
	for number, packet := range a.packets {
		if oldest == nil || isAfter(oldest.SequenceNumber, number) {
			oldest = packet
		}
	}
	return oldest
}

// frame returns the complete frame whose first packet has this number, and the number after its last packet.
func (a *assembler) frame(number uint16) ([]byte, uint16) {
	var frame []byte
	for first := number; ; number++ {
		packet := a.packets[number]
		if packet == nil {
			return nil, 0
		}
		descriptor := codecs.VP8Packet{}
		part, err := descriptor.Unmarshal(packet.Payload)
		if err != nil || (number == first) != (descriptor.S == 1 && descriptor.PID == 0) {
			return nil, 0
		}
		frame = append(frame, part...)
		if packet.Marker {
			return frame, number + 1
		}
	}
}

// keyFrame returns the first complete key frame, which requires no packet before it.
func (a *assembler) keyFrame() ([]byte, uint16) {
	for number := a.next; !isAfter(number, a.newest.SequenceNumber); number++ {
		if frame, after := a.frame(number); isKey(frame) {
			return frame, after
		}
	}
	return nil, 0
}

// skip drops the packets before this number.
func (a *assembler) skip(to uint16) {
	for number := range a.packets {
		if isAfter(to, number) {
			delete(a.packets, number)
		}
	}
	a.next = to
}

// isKey reports whether a frame is a key frame: its lowest bit is zero (RFC 6386, section 9.1).
func isKey(frame []byte) bool { return len(frame) > 0 && frame[0]&1 == 0 }
