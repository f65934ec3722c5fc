package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWrongArgumentsAreRefused(t *testing.T) {
	for _, words := range []string{
		"", "sender work clip 127.0.0.1", "both work clip 127.0.0.1 {}", "sender work clip here {\"start\":1,\"cap\":1}",
		"sender work clip 127.0.0.1 {}", "sender work clip 127.0.0.1 {\"start\":0,\"cap\":1}", "sender work clip ::1 no",
	} {
		if _, err := readArguments(strings.Fields(words)); err == nil {
			t.Errorf("accepts %q", words)
		}
	}
	found, err := readArguments(strings.Fields("receiver work clip 127.0.0.1 {\"start\":300,\"cap\":3500}"))
	if err != nil || found.startBps != 300 || found.maxBps != 3500 || found.file("x") != "work/x" {
		t.Errorf("%+v, %v", found, err)
	}
}

// written is the path of a file with this text.
func written(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "clip.y4m")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestClipRepeatsAtItsEnd(t *testing.T) {
	picture := func(value string) string { return "FRAME\n" + strings.Repeat(value, 3*2+2*2) }
	opened, err := openClip(written(t, "YUV4MPEG2 W3 H2 F30:1 C420\n"+picture("a")+picture("b")))
	if err != nil || opened.frames != 2 || opened.rate() != 30 {
		t.Fatalf("%+v, %v", opened, err)
	}
	samples := make([]byte, opened.size())
	for number, value := range []string{"a", "b", "a"} {
		if err := opened.read(int64(number), samples); err != nil || string(samples) != strings.Repeat(value, 10) {
			t.Errorf("picture %d: %q, %v", number, samples, err)
		}
	}
}

func TestMalformedClipsAreRefused(t *testing.T) {
	for _, text := range []string{
		"", "\n", "YUV4MPEG2 W3 H2", "YUV4MPEG2 W3 H2 F30:1\n", "YUV4MPEG2 Wx H2 F30:1\nFRAME\naaaaaaaaaa",
		"YUV4MPEG2 W3 H2 F30:0\nFRAME\naaaaaaaaaa", "YUV4MPEG2 W9999999999 H2 F30:1\nFRAME\n",
		"YUV4MPEG2 W-3 H2 F30:1\nFRAME\naaaaaaaaaa", strings.Repeat("x", 2_000),
	} {
		if _, err := openClip(written(t, text)); err == nil {
			t.Errorf("accepts %.40q", text)
		}
	}
}

func TestDecoderReturnsPicturesOfTheEncoder(t *testing.T) {
	form := form{width: 50, height: 35, numerator: 30, denominator: 1}
	encoder, err := newEncoder(form, 300_000)
	if err != nil {
		t.Fatal(err)
	}
	decoder, err := newDecoder()
	if err != nil {
		t.Fatal(err)
	}
	grey := bytes.Repeat([]byte{90}, 50*35+2*25*18)
	for number, key := range []bool{false, false, true} {
		frame, err := encoder.encode(grey, 100_000*(number+1), key)
		if err != nil || isKey(frame) != (number != 1) {
			t.Fatalf("frame %d: key %v, %v", number, isKey(frame), err)
		}
		samples, width, height, err := decoder.decode(frame)
		if err != nil || width != 50 || height != 35 || len(samples) != len(grey) {
			t.Fatalf("frame %d: %dx%d, %d samples, %v", number, width, height, len(samples), err)
		}
		if difference := int(samples[0]) - 90; difference < -4 || difference > 4 {
			t.Errorf("frame %d: sample %d", number, samples[0])
		}
	}
	if _, _, _, err := decoder.decode([]byte{1, 2, 3}); err == nil {
		t.Error("decodes garbage")
	}
}
