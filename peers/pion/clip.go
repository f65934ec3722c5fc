package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
)

const (
	frameLine = int64(len("FRAME\n"))
	// maxSide is the largest width or height of VP8 (RFC 6386, section 9.1).
	maxSide = 16_383
)

// form is the size of pictures, and their rate as a fraction.
type form struct{ width, height, numerator, denominator int }

// clip is a y4m file. It repeats at its end.
type clip struct {
	form
	file   *os.File
	header int64
	frames int64
}

func openClip(path string) (*clip, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(io.LimitReader(file, 1024)).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("cannot read the clip: expected a y4m file")
	}
	opened := &clip{file: file, header: int64(len(line))}
	for _, field := range strings.Fields(line) {
		switch field[0] {
		case 'W':
			_, err = fmt.Sscanf(field, "W%d", &opened.width)
		case 'H':
			_, err = fmt.Sscanf(field, "H%d", &opened.height)
		case 'F':
			_, err = fmt.Sscanf(field, "F%d:%d", &opened.numerator, &opened.denominator)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read the clip: field %q of its header: %w", field, err)
		}
	}
	smallest := min(opened.width, opened.height, opened.numerator, opened.denominator)
	if smallest <= 0 || max(opened.width, opened.height) > maxSide {
		return nil, fmt.Errorf("cannot read the clip: expected a size up to %d and a frame rate in its header", maxSide)
	}
	about, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if opened.frames = (about.Size() - opened.header) / (opened.size() + frameLine); opened.frames == 0 {
		return nil, fmt.Errorf("cannot read the clip: expected at least one picture")
	}
	return opened, nil
}

// size is the number of bytes of a picture.
func (c *clip) size() int64 {
	return int64(c.width)*int64(c.height) + 2*int64((c.width+1)/2)*int64((c.height+1)/2)
}

// rate is the number of pictures per second.
func (c *clip) rate() float64 { return float64(c.numerator) / float64(c.denominator) }

// read reads the samples of a picture into a buffer of its size.
func (c *clip) read(number int64, samples []byte) error {
	_, err := c.file.ReadAt(samples, c.header+number%c.frames*(c.size()+frameLine)+frameLine)
	return err
}
