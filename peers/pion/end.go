package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/pion/ice/v4"
	"github.com/pion/interceptor"
	"github.com/pion/interceptor/pkg/cc"
	"github.com/pion/interceptor/pkg/gcc"
	"github.com/pion/interceptor/pkg/stats"
	"github.com/pion/rtcp"
	"github.com/pion/webrtc/v4"
)

// end is one end of a call.
type end struct {
	connection *webrtc.PeerConnection
	estimator  cc.BandwidthEstimator
	statistics stats.Getter
	ssrc       uint32
	camera     *camera
	input      *bufio.Reader
}

// newEnd makes an end with pion's default interceptors and, as in pion's example, its estimator.
func newEnd(arguments arguments) (*end, error) {
	made := &end{input: bufio.NewReader(os.Stdin)}
	media, interceptors := &webrtc.MediaEngine{}, &interceptor.Registry{}
	feedback := []webrtc.RTCPFeedback{{Type: "ccm", Parameter: "fir"}, {Type: "nack"}, {Type: "nack", Parameter: "pli"}}
	codec := webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeVP8, ClockRate: 90_000, RTCPFeedback: feedback}
	// Without RTX, retransmissions have the SSRC of the stream. The estimator's pacer drops those with another one.
	parameters := webrtc.RTPCodecParameters{RTPCodecCapability: codec, PayloadType: 96}
	if err := media.RegisterCodec(parameters, webrtc.RTPCodecTypeVideo); err != nil {
		return nil, err
	}
	if arguments.role == sender {
		controlled, err := cc.NewInterceptor(func() (cc.BandwidthEstimator, error) {
			return gcc.NewSendSideBWE(
				gcc.SendSideBWEInitialBitrate(arguments.startBps), gcc.SendSideBWEMaxBitrate(arguments.maxBps),
			)
		})
		if err != nil {
			return nil, err
		}
		controlled.OnNewPeerConnection(func(_ string, estimator cc.BandwidthEstimator) { made.estimator = estimator })
		interceptors.Add(controlled)
		// PeerConnection.GetStats has only the statistics of received streams.
		counted, err := stats.NewInterceptor()
		if err != nil {
			return nil, err
		}
		counted.OnNewPeerConnection(func(_ string, statistics stats.Getter) { made.statistics = statistics })
		interceptors.Add(counted)
		if err := webrtc.ConfigureTWCCHeaderExtensionSender(media, interceptors); err != nil {
			return nil, err
		}
	}
	if err := webrtc.RegisterDefaultInterceptors(media, interceptors); err != nil {
		return nil, err
	}
	settings := webrtc.SettingEngine{}
	settings.SetNetworkTypes([]webrtc.NetworkType{webrtc.NetworkTypeUDP4})
	settings.SetICEMulticastDNSMode(ice.MulticastDNSModeDisabled)
	settings.SetIncludeLoopbackCandidate(arguments.address.IsLoopback())
	settings.SetIPFilter(func(address net.IP) bool { return address.Equal(arguments.address) })
	connection, err := webrtc.NewAPI(
		webrtc.WithMediaEngine(media), webrtc.WithInterceptorRegistry(interceptors), webrtc.WithSettingEngine(settings),
	).NewPeerConnection(webrtc.Configuration{})
	if err != nil {
		return nil, err
	}
	made.connection = connection
	return made, nil
}

// send makes the offer, and starts the camera when the connection is ready.
func (e *end) send(arguments arguments) error {
	track, err := webrtc.NewTrackLocalStaticSample(
		webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeVP8}, "video", "lockstep",
	)
	if err != nil {
		return err
	}
	if e.camera, err = newCamera(arguments, track); err != nil {
		return err
	}
	e.estimator.OnTargetBitrateChange(e.camera.allow)
	sending, err := e.connection.AddTrack(track)
	if err != nil {
		return err
	}
	e.ssrc = uint32(sending.GetParameters().Encodings[0].SSRC)
	go readFeedback(sending, func(packet rtcp.Packet) {
		switch packet.(type) {
		case *rtcp.PictureLossIndication, *rtcp.FullIntraRequest:
			e.camera.keyRequested.Store(true)
		}
	})
	e.connection.OnConnectionStateChange(func(state webrtc.PeerConnectionState) {
		switch state {
		case webrtc.PeerConnectionStateConnected:
			e.camera.start()
		case webrtc.PeerConnectionStateFailed:
			leave(fmt.Errorf("the connection to the other end was lost"))
		}
	})
	offer, err := e.connection.CreateOffer(nil)
	if err != nil {
		return err
	}
	if err := e.describe(offer); err != nil {
		return err
	}
	return e.readDescription()
}

// receive answers the offer and shows the pictures.
func (e *end) receive(arguments arguments) error {
	screen, err := newScreen(arguments)
	if err != nil {
		return err
	}
	e.connection.OnTrack(func(track *webrtc.TrackRemote, receiving *webrtc.RTPReceiver) {
		go readFeedback(receiving, func(rtcp.Packet) {})
		screen.receive(track, e.connection)
	})
	if err := e.readDescription(); err != nil {
		return err
	}
	answer, err := e.connection.CreateAnswer(nil)
	if err != nil {
		return err
	}
	return e.describe(answer)
}

// readFeedback reads RTCP packets until the connection ends. Interceptors only process packets that are read.
func readFeedback(
	from interface {
		ReadRTCP() ([]rtcp.Packet, interceptor.Attributes, error)
	}, each func(rtcp.Packet),
) {
	for {
		packets, _, err := from.ReadRTCP()
		if err != nil {
			return
		}
		for _, packet := range packets {
			each(packet)
		}
	}
}

// describe sets the local session description, and prints it with all candidates.
func (e *end) describe(description webrtc.SessionDescription) error {
	gathered := webrtc.GatheringCompletePromise(e.connection)
	if err := e.connection.SetLocalDescription(description); err != nil {
		return err
	}
	<-gathered
	return json.NewEncoder(os.Stdout).Encode(e.connection.LocalDescription())
}

// readDescription applies the session description of the other end.
func (e *end) readDescription() error {
	line, err := e.input.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("cannot read the session description of the other end: %w", err)
	}
	var description webrtc.SessionDescription
	if err := json.Unmarshal(line, &description); err != nil {
		return fmt.Errorf("cannot read the session description of the other end: %w", err)
	}
	return e.connection.SetRemoteDescription(description)
}

// wait returns when standard input ends.
func (e *end) wait() { _, _ = io.Copy(io.Discard, e.input) }

// sample is a row of the series.
func (e *end) sample() map[string]any {
	row := map[string]any{"at": now()}
	if e.camera == nil {
		return row
	}
	row["estimate_bps"] = e.estimator.GetTargetBitrate()
	row["target_bps"] = e.camera.targetBps()
	row["frames_sent"], row["media_bits"] = e.camera.frames.Load(), e.camera.bits.Load()
	if found := e.statistics.Get(e.ssrc); found != nil {
		sent := found.OutboundRTPStreamStats
		row["sent_bits"], row["packets_sent"] = 8*(sent.BytesSent+sent.HeaderBytesSent), sent.PacketsSent
		if reported := found.RemoteInboundRTPStreamStats; reported.RoundTripTimeMeasurements > 0 {
			row["round_trip_us"] = reported.RoundTripTime.Microseconds()
		}
	}
	return row
}
