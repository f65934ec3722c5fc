package main

import (
	"slices"
	"testing"

	"github.com/pion/rtp"
	"github.com/pion/rtp/codecs"
)

const (
	key   = 0
	inter = 1
	// ticks between two pictures.
	ticks = 3_000
)

// packets of frames with two packets each. A frame is its kind, its number and its size.
func packets(first uint16, kinds ...byte) (found []*rtp.Packet) {
	for number, kind := range kinds {
		frame := append([]byte{kind, byte(number)}, make([]byte, 1_000)...)
		parts := (&codecs.VP8Payloader{}).Payload(600, frame)
		for place, part := range parts {
			header := rtp.Header{
				SequenceNumber: first + uint16(len(found)),
				Timestamp:      uint32(number) * ticks,
				Marker:         place == len(parts)-1,
			}
			found = append(found, &rtp.Packet{Header: header, Payload: part})
		}
	}
	return found
}

func pushed(assembled *assembler, packets ...*rtp.Packet) (numbers []byte) {
	for _, packet := range packets {
		for _, frame := range assembled.push(packet) {
			numbers = append(numbers, frame[1])
		}
	}
	return numbers
}

func expect(t *testing.T, found []byte, expected ...byte) {
	t.Helper()
	if !slices.Equal(found, expected) {
		t.Errorf("frames %v, expected %v", found, expected)
	}
}

func TestFrameIsCompleteWithItsLastPacket(t *testing.T) {
	all := packets(65_534, key, inter, inter)
	assembled := newAssembler()
	expect(t, pushed(assembled, all[0]))
	expect(t, pushed(assembled, all[1]), 0)
	// Numbers wrap around here. A packet that is late or sent again delays its frame and later ones.
	expect(t, pushed(assembled, all[3], all[4], all[5], all[3]))
	expect(t, pushed(assembled, all[2], all[0]), 1, 2)
	if assembled.needsKey {
		t.Error("needs a key frame, though none was lost")
	}
}

func TestKeyFrameIsNeededAfterALostFrame(t *testing.T) {
	kinds := slices.Repeat([]byte{inter}, 40)
	kinds[0], kinds[30] = key, key
	all := packets(100, kinds...)
	assembled := newAssembler()
	expect(t, pushed(assembled, all[0], all[1]), 0)
	// The second frame is lost; 17 frames are more than half a second.
	expect(t, pushed(assembled, all[3:34]...))
	if assembled.needsKey {
		t.Error("no longer waits for a retransmission")
	}
	expect(t, pushed(assembled, all[34:60]...))
	if !assembled.needsKey {
		t.Error("still waits for a retransmission")
	}
	expect(t, pushed(assembled, all[60:66]...), 30, 31, 32)
	if assembled.needsKey || len(assembled.packets) != 0 {
		t.Error("the state before the key frame remains")
	}
}

func TestWithoutKeyFrameFewPacketsAreKept(t *testing.T) {
	kinds := slices.Repeat([]byte{inter}, 1_000)
	assembled := newAssembler()
	expect(t, pushed(assembled, packets(0, kinds...)[1:]...))
	if kept := len(assembled.packets); kept > 2*(maxWait/ticks+1) {
		t.Errorf("keeps %d packets", kept)
	}
}

func TestMalformedPacketsAreIgnored(t *testing.T) {
	assembled := newAssembler()
	for number, payload := range [][]byte{nil, {}, {0x80}, {0x10}, {0x90, 0x80}} {
		header := rtp.Header{SequenceNumber: uint16(number), Marker: true}
		for _, frame := range assembled.push(&rtp.Packet{Header: header, Payload: payload}) {
			if len(frame) != 0 {
				t.Errorf("a frame of payload %v", payload)
			}
		}
	}
}
