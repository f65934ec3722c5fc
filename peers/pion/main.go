// One end of a call by pion, as a process: `lockstep-pion-peer sender|receiver WORK CLIP ADDRESS OPTIONS`.
//
// `python/lockstep/testbed/two_ends.py` defines its input, output and files. The sender plays the clip as a camera, and
// codes it with libvpx's VP8 at the rate of pion's bandwidth estimate (GCC). The receiver decodes complete frames in
// order, and requests a key frame after a lost one.
package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	sender   = "sender"
	receiver = "receiver"
	// sampled is the interval of the rows in the series.
	sampled = 500 * time.Millisecond
)

// arguments of an end.
type arguments struct {
	role string
	// work is the folder for all output files.
	work    string
	clip    string
	address net.IP
	// startBps is the initial bandwidth estimate, and maxBps the limit on it, bit/s.
	startBps, maxBps int
}

func (a arguments) file(name string) string { return filepath.Join(a.work, name) }

func readArguments(words []string) (arguments, error) {
	if len(words) != 5 || words[0] != sender && words[0] != receiver {
		return arguments{}, fmt.Errorf(
			"usage: lockstep-pion-peer sender|receiver WORK CLIP ADDRESS OPTIONS (started by `lockstep testbed`)",
		)
	}
	var options struct{ Start, Cap int }
	if err := json.Unmarshal([]byte(words[4]), &options); err != nil || min(options.Start, options.Cap) <= 0 {
		return arguments{}, fmt.Errorf("cannot read the options: expected positive rates `start` and `cap`")
	}
	address := net.ParseIP(words[3])
	if address == nil {
		return arguments{}, fmt.Errorf("cannot read the address %q: expected an IP address", words[3])
	}
	return arguments{words[0], words[1], words[2], address, options.Start, options.Cap}, nil
}

// now is the time of the machine's monotonic clock, s.
func now() float64 {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &at); err != nil {
		leave(err)
	}
	return float64(at.Nano()) / 1e9
}

// leave ends the process with an error.
func leave(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func run(arguments arguments) error {
	series, err := os.Create(arguments.file(arguments.role + ".series"))
	if err != nil {
		return err
	}
	end, err := newEnd(arguments)
	if err != nil {
		return err
	}
	join := end.receive
	if arguments.role == sender {
		join = end.send
	}
	if err := join(arguments); err != nil {
		return err
	}
	go func() {
		rows := json.NewEncoder(series)
		for range time.Tick(sampled) {
			if err := rows.Encode(end.sample()); err != nil {
				leave(fmt.Errorf("cannot write the series: %w", err))
			}
		}
	}()
	end.wait()
	return nil
}

func main() {
	arguments, err := readArguments(os.Args[1:])
	if err == nil {
		err = run(arguments)
	}
	if err != nil {
		leave(err)
	}
}
